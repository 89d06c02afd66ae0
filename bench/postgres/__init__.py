"""Many nodes on one PostgreSQL: `python -m bench postgres`, or one part of it, such as `postgres.throughput`."""

from collections.abc import Callable

from bench.postgres import changes, idle, lateness, several, throughput
from bench.race import Result

PARTS: dict[str, Callable[[], list[Result]]] = {
    "throughput": throughput.run,
    "several": several.run,
    "lateness": lateness.run,
    "idle": idle.run,
    "changes": changes.run,
}
ALONE: dict[str, Callable[[], list[Result]]] = {"ours": throughput.run_ours}
"""Asked for by name only: what the parts measure already, in less time."""


def run() -> list[Result]:
    results: list[Result] = []
    for name, part in PARTS.items():
        print(f"── postgres.{name}", flush=True)
        results += part()
    return results
