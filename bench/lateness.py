"""From due to start: at a steady rate, beside few and many schedules that only lie in the store.

Beside it, a bare loop that only waits and makes one page durable: nobody can be earlier on this machine, now.
"""

import shutil
from pathlib import Path

from bench.alone import Measured, fresh_folder, ours
from bench.race import Result, table

SECONDS = 5
ROUNDS = 3
BARE = 0
"""The place of the bare loop in the table: it stores nothing."""

RATES = (100, 1_000)
STORED = (1_000, 100_000)
FULL = (*STORED, 1_000_000)
P50, P99 = 2.0, 10.0
FLAT = 1.5
"""The p99 beside the most stored may be so many times that beside the fewest."""


def run() -> list[Result]:
    return _run(STORED)


def run_full() -> list[Result]:
    return _run(FULL)


def _run(stored: tuple[int, ...]) -> list[Result]:
    with fresh_folder() as folder:
        stores = {(rate, count): folder / f"{rate}-{count}" for count in stored for rate in RATES}
        stores |= {(rate, BARE): folder for rate in RATES}
        for count in stored:
            _fill([stores[rate, count] for rate in RATES], count)
        found = _rounds(stores)
    rows = [("lateness in ms", "p50", "p99", "longest", "starts")]
    rows += [(f"{rate:,}/s, {_beside(count)}", *row_of(each)) for (rate, count), each in found.items()]
    print(table(rows))
    results = [_result(rate, count, each) for (rate, count), each in found.items() if count]
    return results + [_flatness(rate, found[rate, stored[0]], found[rate, stored[-1]]) for rate in RATES]


def _rounds(stores: dict[tuple[int, int], Path]) -> dict[tuple[int, int], Measured]:
    """Everybody takes turns, and the round with the middle p99 counts: the machine is not ours alone."""
    rounds: dict[tuple[int, int], list[Measured]] = {key: [] for key in sorted(stores)}
    for at in range(ROUNDS):
        for (rate, count), done in rounds.items():
            print(f"round {at + 1}: {rate:,} beats a second for {SECONDS} s, {_beside(count)}", flush=True)
            name = "lateness" if count else "bare"
            done.append(ours(name, stores[rate, count], rate=rate, seconds=SECONDS))
    return {key: sorted(done, key=lambda each: float(each["p99"]))[ROUNDS // 2] for key, done in rounds.items()}


def _fill(stores: list[Path], count: int) -> None:
    print(f"filling a store with {count:,} schedules", flush=True)
    first, *others = stores
    first.mkdir()
    ours("fill", first, stored=count)
    for other in others:
        shutil.copytree(first, other)


def _beside(count: int) -> str:
    return f"{count:,} stored" if count else "a bare loop"


def row_of(each: Measured) -> tuple[str, str, str, str]:
    return f"{each['p50']:.2f}", f"{each['p99']:.2f}", f"{each['longest']:.2f}", f"{each['count']:,}"


def _result(rate: int, stored: int, each: Measured) -> Result:
    return Result(
        what=f"lateness at {rate:,}/s, {stored:,} stored",
        measured=f"p50 {each['p50']:.1f}, p99 {each['p99']:.1f} ms",
        goal=f"at most {P50:g} and {P99:g} ms",
        is_met=each["p50"] <= P50 and each["p99"] <= P99,
    )


def _flatness(rate: int, few: Measured, many: Measured) -> Result:
    ratio = many["p99"] / few["p99"]
    return Result(
        what=f"lateness at {rate:,}/s, many stored beside few",
        measured=f"p99 x {ratio:.2f}",
        goal=f"at most x {FLAT:g}",
        is_met=ratio <= FLAT,
    )
