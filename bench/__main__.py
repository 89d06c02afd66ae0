"""Run every measurement, or the one that is named, and say which goals are met."""

import sys
from collections.abc import Callable

from bench import cron_next, governor
from bench.race import Result, table

BENCHES: dict[str, Callable[[], list[Result]]] = {
    "cron_next": cron_next.run,
    "governor": governor.run,
}


def main(names: list[str]) -> int:
    """0 if every goal is met, 1 if one is missed, 2 if a name is unknown."""
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f'no measurement is called "{unknown[0]}"; there are {", ".join(BENCHES)}', file=sys.stderr)
        return 2
    results: list[Result] = []
    for name in names or list(BENCHES):
        print(f"── {name}", flush=True)
        results += BENCHES[name]()
    print("── goals")
    print(table([(each.what, each.measured, each.goal, "met" if each.is_met else "MISSED") for each in results]))
    return 0 if all(each.is_met for each in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
