"""A hundred commands started each second: how late are functions meanwhile?"""

from bench.compared import compared
from bench.race import Result

STARTS = 100
RATE = 100
SECONDS = 10
P99 = 20.0


def run() -> list[Result]:
    found = compared(f"beside {STARTS} commands a second", "children", starts=STARTS, rate=RATE, seconds=SECONDS)
    measured = found["burdened"]["p99"]
    return [
        Result(
            what=f"lateness beside {STARTS} commands/s",
            measured=f"p99 {measured:.1f} ms",
            goal=f"at most {P99:g} ms",
            is_met=measured <= P99,
        )
    ]
