"""Isolation: do 100,000 beats that wait for one full target delay another target's beats, while they wait or arrive?"""

from bench.interference import measure_interference
from bench.timing import Result

WAITING = 100_000
RATE = 100
SECONDS = 10
MAX_P99_RATIO = 1.5
"""The allowed ratio. The p99 of a few seconds varies that much between runs without any cause."""

MAX_ARRIVAL_P99 = 100.0
"""Milliseconds. Each of the 100,000 beats first gets a row of its own as pending, which is ten seconds of work."""


def run() -> list[Result]:
    return [_waiting(), _arriving()]


def _waiting() -> Result:
    measured = measure_interference(
        f"beside {WAITING:,} waiting", "backlog", waiting=WAITING, rate=RATE, seconds=SECONDS
    )
    ratio = measured["burdened"]["p99"] / measured["alone"]["p99"]
    return Result(
        what=f"lateness beside {WAITING:,} waiting",
        measured=f"p99 x {ratio:.2f}",
        goal=f"at most x {MAX_P99_RATIO:g}",
        is_met=ratio <= MAX_P99_RATIO,
    )


def _arriving() -> Result:
    burden = f"while {WAITING:,} of a full target fall due at once"
    p99 = measure_interference(burden, "arrival", herd=WAITING, rate=RATE, seconds=2 * SECONDS)["burdened"]["p99"]
    return Result(
        what=f"lateness while {WAITING:,} arrive",
        measured=f"p99 {p99:.0f} ms",
        goal=f"at most {MAX_ARRIVAL_P99:.0f} ms",
        is_met=p99 <= MAX_ARRIVAL_P99,
    )
