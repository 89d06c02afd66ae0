"""A hundred thousand beats wait for one full target: is another target's beat any later?"""

from bench.alone import fresh_folder, ours
from bench.lateness import row_of
from bench.race import Result, table

WAITING = 100_000
RATE = 100
SECONDS = 10
SAME = 1.5
"""A p99 of a few seconds' measurement differs by that much from one run to the next without any cause."""


def run() -> list[Result]:
    print(f"{RATE} beats a second, alone and beside {WAITING:,} waiting", flush=True)
    with fresh_folder() as folder:
        found = ours("backlog", folder, waiting=WAITING, rate=RATE, seconds=SECONDS)
    rows = [("lateness in ms", "p50", "p99", "longest", "starts")]
    rows += [(what, *row_of(found[what])) for what in ("alone", "burdened")]
    print(table(rows))
    ratio = found["burdened"]["p99"] / found["alone"]["p99"]
    return [
        Result(
            what=f"lateness beside {WAITING:,} waiting",
            measured=f"p99 x {ratio:.2f}",
            goal=f"at most x {SAME:g}",
            is_met=ratio <= SAME,
        )
    ]
