"""Isolation: how late do functions start while a hundred commands start each second?"""

from bench.interference import measure_interference
from bench.timing import Result

STARTS = 100
RATE = 100
SECONDS = 10
MAX_P99 = 20.0


def run() -> list[Result]:
    found = measure_interference(
        f"beside {STARTS} commands a second", "children", starts=STARTS, rate=RATE, seconds=SECONDS
    )
    measured = found["burdened"]["p99"]
    return [
        Result(
            what=f"lateness beside {STARTS} commands/s",
            measured=f"p99 {measured:.1f} ms",
            goal=f"at most {MAX_P99:g} ms",
            is_met=measured <= MAX_P99,
        )
    ]
