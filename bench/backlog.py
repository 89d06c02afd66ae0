"""A hundred thousand beats wait for one full target: is another target's beat any later? And while they arrive?"""

from bench.compared import compared
from bench.race import Result

WAITING = 100_000
RATE = 100
SECONDS = 10
SAME = 1.5
"""A p99 of a few seconds' measurement differs by that much from one run to the next without any cause."""

ARRIVING = 100.0
"""Milliseconds. Each of the hundred thousand is parked first, with a row of its own: that is work for ten seconds."""


def run() -> list[Result]:
    return [_waiting(), _arriving()]


def _waiting() -> Result:
    found = compared(f"beside {WAITING:,} waiting", "backlog", waiting=WAITING, rate=RATE, seconds=SECONDS)
    ratio = found["burdened"]["p99"] / found["alone"]["p99"]
    return Result(
        what=f"lateness beside {WAITING:,} waiting",
        measured=f"p99 x {ratio:.2f}",
        goal=f"at most x {SAME:g}",
        is_met=ratio <= SAME,
    )


def _arriving() -> Result:
    burden = f"while {WAITING:,} of a full target fall due at once"
    p99 = compared(burden, "arrival", herd=WAITING, rate=RATE, seconds=2 * SECONDS)["burdened"]["p99"]
    return Result(
        what=f"lateness while {WAITING:,} arrive",
        measured=f"p99 {p99:.0f} ms",
        goal=f"at most {ARRIVING:.0f} ms",
        is_met=p99 <= ARRIVING,
    )
