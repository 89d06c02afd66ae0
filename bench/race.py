"""How a measurement is made: everybody takes turns in one process, and the median of many short rounds counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Call = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the last table: what was measured, what was hoped for, and whether it came true."""

    what: str
    measured: str
    goal: str
    is_met: bool


def race(contenders: Mapping[str, Call], *, rounds: int = 15, seconds: float = 0.002) -> dict[str, float]:
    """Seconds per call of each contender.

    They take turns round by round, so that a busy moment of the machine falls on all of them alike.
    """
    calls = {name: _calls_in(call, seconds) for name, call in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            times[name].append(_timed(call, calls[name]) / calls[name])
    return {name: median(each) for name, each in times.items()}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length, with the first column to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _calls_in(call: Call, seconds: float) -> int:
    """How many calls fill about that time; the first ones warm up what is lazy."""
    call()
    return max(1, int(seconds / max(_timed(call, 5) / 5, 1e-9)))


def _timed(call: Call, times: int) -> float:
    start = perf_counter()
    for _ in range(times):
        call()
    return perf_counter() - start
