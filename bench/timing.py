"""Timing of calls: contenders take turns in one process, and the median of many short rounds counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Call = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the table of goals."""

    what: str
    measured: str
    goal: str
    is_met: bool


def time_contenders(contenders: Mapping[str, Call], *, rounds: int = 15, seconds: float = 0.002) -> dict[str, float]:
    """Return the seconds per call of each contender.

    They take turns round by round, so that a busy moment of the machine affects all of them alike.
    """
    calls = {name: _calibrate_calls(call, seconds) for name, call in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            times[name].append(_elapsed(call, calls[name]) / calls[name])
    return {name: median(each) for name, each in times.items()}


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of equal length: the first column is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _calibrate_calls(call: Call, seconds: float) -> int:
    """Return how many calls take about that time. The first calls also trigger lazy initialisation."""
    call()
    return max(1, int(seconds / max(_elapsed(call, 5) / 5, 1e-9)))


def _elapsed(call: Call, times: int) -> float:
    start = perf_counter()
    for _ in range(times):
        call()
    return perf_counter() - start
