"""Is this installation well? Every check is a function that gives findings, and changes nothing."""

from dataclasses import dataclass
from enum import StrEnum

# What a check has found: how bad it is, about what, and what to do about it.


class FindingLevel(StrEnum):
    OK = "well"
    WARNING = "warning"
    PROBLEM = "problem"  # something will not run, or history is in danger


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """`about` is one short word, the same at every call: config, store, clock, the name of a program."""

    level: FindingLevel
    subject: str
    text: str
    fix: str = ""


def report_ok(about: str, text: str) -> DoctorFinding:
    return DoctorFinding(level=FindingLevel.OK, subject=about, text=text)


def report_warning(about: str, text: str, fix: str) -> DoctorFinding:
    return DoctorFinding(level=FindingLevel.WARNING, subject=about, text=text, fix=fix)


def report_problem(about: str, text: str, fix: str) -> DoctorFinding:
    return DoctorFinding(level=FindingLevel.PROBLEM, subject=about, text=text, fix=fix)
