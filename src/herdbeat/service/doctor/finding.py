"""What a check has found: how bad it is, about what, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    WELL = "well"
    WARNING = "warning"
    PROBLEM = "problem"  # something will not run, or history is in danger


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`about` is one short word, the same at every call: config, store, clock, the name of a program."""

    level: Level
    about: str
    text: str
    mend: str = ""


def well(about: str, text: str) -> Finding:
    return Finding(level=Level.WELL, about=about, text=text)


def warning(about: str, text: str, mend: str) -> Finding:
    return Finding(level=Level.WARNING, about=about, text=text, mend=mend)


def problem(about: str, text: str, mend: str) -> Finding:
    return Finding(level=Level.PROBLEM, about=about, text=text, mend=mend)
