"""Small turns of phrase for lists and series of numbers."""

from collections.abc import Iterable, Sequence


def join_words(words: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *front, last = words
    return f"{', '.join(front)} and {last}" if front else last


def format_ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 11th, 22nd."""
    suffix = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def cycle_step(values: Sequence[int], cycle: int) -> int | None:
    """The step of a series that goes round evenly, from 0 on: (0, 15, 30, 45) of 60 -> 15; else None."""
    if len(values) < 2 or cycle % len(values):
        return None
    step = cycle // len(values)
    return step if tuple(values) == tuple(range(0, cycle, step)) else None


def is_consecutive(values: Sequence[int]) -> bool:
    """True for three or more numbers without a hole."""
    return len(values) > 2 and values[-1] - values[0] == len(values) - 1


def uniform_step(values: Sequence[int]) -> int | None:
    """The step of four or more numbers at equal distances, wherever they begin; None if they have none."""
    if len(values) < 4:
        return None
    step = values[1] - values[0]
    return step if tuple(values) == tuple(range(values[0], values[-1] + 1, step)) else None


def format_range(names: Sequence[str], *, consecutive: bool) -> str:
    """ "Monday to Friday" for a run of names, else all of them."""
    return f"{names[0]} to {names[-1]}" if consecutive else join_words(names)
