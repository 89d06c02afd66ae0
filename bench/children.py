"""A hundred commands started each second: how late are functions meanwhile?"""

from bench.alone import fresh_folder, ours
from bench.lateness import row_of
from bench.race import Result, table

STARTS = 100
RATE = 100
SECONDS = 10
P99 = 20.0


def run() -> list[Result]:
    print(f"{RATE} functions a second, alone and beside {STARTS} commands a second", flush=True)
    with fresh_folder() as folder:
        found = ours("children", folder, starts=STARTS, rate=RATE, seconds=SECONDS)
    rows = [("lateness in ms", "p50", "p99", "longest", "starts")]
    rows += [(what, *row_of(found[what])) for what in ("alone", "burdened")]
    print(table(rows))
    measured = found["burdened"]["p99"]
    return [
        Result(
            what=f"lateness beside {STARTS} commands/s",
            measured=f"p99 {measured:.1f} ms",
            goal=f"at most {P99:g} ms",
            is_met=measured <= P99,
        )
    ]
