"""Run every measurement, or the named ones, and report which goals are met."""

import signal
import sys
from collections.abc import Callable

from bench import (
    backlog,
    child_processes,
    cli_latency,
    cron_next,
    endpoints,
    governor,
    idle,
    lateness,
    pages,
    postgres,
    rules,
    simulation,
    throughput,
)
from bench.timing import Result, format_table

BENCHES: dict[str, Callable[[], list[Result]]] = {
    "cron_next": cron_next.run,
    "governor": governor.run,
    "rules": rules.run,
    "throughput": throughput.run,
    "endpoints": endpoints.run,
    "lateness": lateness.run,
    "backlog": backlog.run,
    "children": child_processes.run,
    "idle": idle.run,
    "answers": cli_latency.run,
    "pages": pages.run,
    "postgres": postgres.run,
    "simulation": simulation.run,
}
FULL: dict[str, Callable[[], list[Result]]] = {**BENCHES, "lateness": lateness.run_full}
"""What `--full` measures: the same with larger stores."""

PARTS: dict[str, Callable[[], list[Result]]] = {
    "children.busy": child_processes.run_busy,
    **{f"postgres.{name}": part for name, part in (postgres.PARTS | postgres.ONLY_BY_NAME).items()},
}
"""Parts of a measurement. They run only if named."""


def main(names: list[str]) -> int:
    """Return 0 if every goal is met, 1 if one is missed, 2 if a name is unknown."""
    benches = FULL if "--full" in names else BENCHES
    names = [name for name in names if name != "--full"]
    known = benches | PARTS
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f'no measurement is called "{unknown[0]}"; there are {", ".join(known)}', file=sys.stderr)
        return 2
    results: list[Result] = []
    for name in names or list(benches):
        print(f"── {name}", flush=True)
        results += known[name]()
    print("── goals")
    print(format_table([(each.what, each.measured, each.goal, "met" if each.is_met else "MISSED") for each in results]))
    return 0 if all(each.is_met for each in results) else 1


if __name__ == "__main__":
    # The default action would end the process without cleanup, and leave its nodes and its database server running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
