"""Lateness from due to start at a steady rate, with few and many idle schedules in the store.

The baseline is a bare loop that only waits and makes one page durable: no scheduler can be faster on this machine.
"""

import shutil
from pathlib import Path

from bench.subprocesses import Measurement, fresh_folder, run_ours
from bench.timing import Result, format_table

SECONDS = 5
ROUNDS = 3
BARE = 0
"""The number of stored schedules that marks the bare loop: it stores nothing."""

RATES = (100, 1_000)
STORED = (1_000, 100_000)
FULL_STORED = (*STORED, 1_000_000)
MAX_P50, MAX_P99 = 2.0, 10.0
MAX_P99_RATIO = 1.5
"""The largest allowed ratio of the p99 with the most stored schedules to that with the fewest."""


def run() -> list[Result]:
    return _run(STORED)


def run_full() -> list[Result]:
    return _run(FULL_STORED)


def _run(stored: tuple[int, ...]) -> list[Result]:
    with fresh_folder() as folder:
        stores = {(rate, count): folder / f"{rate}-{count}" for count in stored for rate in RATES}
        stores |= {(rate, BARE): folder for rate in RATES}
        for count in stored:
            _fill([stores[rate, count] for rate in RATES], count)
        measured = _rounds(stores)
    rows = [("lateness in ms", "p50", "p99", "longest", "starts")]
    rows += [
        (f"{rate:,}/s, {_describe_store(count)}", *percentile_row(each)) for (rate, count), each in measured.items()
    ]
    print(format_table(rows))
    results = [_result(rate, count, each) for (rate, count), each in measured.items() if count]
    return results + [
        _compare_store_sizes(rate, measured[rate, stored[0]], measured[rate, stored[-1]]) for rate in RATES
    ]


def _rounds(stores: dict[tuple[int, int], Path]) -> dict[tuple[int, int], Measurement]:
    """Measure in turns, and return the round with the median p99 of each: other processes share the machine."""
    rounds: dict[tuple[int, int], list[Measurement]] = {key: [] for key in sorted(stores)}
    for at in range(ROUNDS):
        for (rate, count), done in rounds.items():
            print(f"round {at + 1}: {rate:,} beats a second for {SECONDS} s, {_describe_store(count)}", flush=True)
            name = "lateness" if count else "bare"
            done.append(run_ours(name, stores[rate, count], rate=rate, seconds=SECONDS))
    return {key: sorted(done, key=lambda each: float(each["p99"]))[ROUNDS // 2] for key, done in rounds.items()}


def _fill(stores: list[Path], count: int) -> None:
    print(f"filling a store with {count:,} schedules", flush=True)
    first, *others = stores
    first.mkdir()
    run_ours("fill", first, stored=count)
    for other in others:
        shutil.copytree(first, other)


def _describe_store(count: int) -> str:
    return f"{count:,} stored" if count else "a bare loop"


def percentile_row(each: Measurement) -> tuple[str, str, str, str]:
    return f"{each['p50']:.2f}", f"{each['p99']:.2f}", f"{each['longest']:.2f}", f"{each['count']:,}"


def _result(rate: int, stored: int, each: Measurement) -> Result:
    return Result(
        what=f"lateness at {rate:,}/s, {stored:,} stored",
        measured=f"p50 {each['p50']:.1f}, p99 {each['p99']:.1f} ms",
        goal=f"at most {MAX_P50:g} and {MAX_P99:g} ms",
        is_met=each["p50"] <= MAX_P50 and each["p99"] <= MAX_P99,
    )


def _compare_store_sizes(rate: int, few: Measurement, many: Measurement) -> Result:
    ratio = many["p99"] / few["p99"]
    return Result(
        what=f"lateness at {rate:,}/s, many stored beside few",
        measured=f"p99 x {ratio:.2f}",
        goal=f"at most x {MAX_P99_RATIO:g}",
        is_met=ratio <= MAX_P99_RATIO,
    )
