"""Many nodes on one PostgreSQL: `python -m bench postgres`, or one part of it, such as `postgres.throughput`."""

from collections.abc import Callable

from bench.postgres import change_latency, failover, idle, lateness, scaling, throughput
from bench.timing import Result

PARTS: dict[str, Callable[[], list[Result]]] = {
    "throughput": throughput.run,
    "several": scaling.run,
    "lateness": lateness.run,
    "idle": idle.run,
    "changes": change_latency.run,
}
ONLY_BY_NAME: dict[str, Callable[[], list[Result]]] = {
    "ours": throughput.run_ours,
    "failover": failover.run,
}
"""Run by name only: subsets of what the parts measure, in less time."""


def run() -> list[Result]:
    results: list[Result] = []
    for name, part in PARTS.items():
        print(f"── postgres.{name}", flush=True)
        results += part()
    return results
