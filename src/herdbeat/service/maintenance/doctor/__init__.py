"""Checks of an installation. Each check is a function that yields findings and changes nothing."""

from dataclasses import dataclass
from enum import StrEnum


class FindingLevel(StrEnum):
    OK = "well"
    WARNING = "warning"
    PROBLEM = "problem"  # something will not run, or history is in danger


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """`subject` is one short word that a check always uses: config, store, clock, the name of a program."""

    level: FindingLevel
    subject: str
    text: str
    fix: str = ""


def report_ok(subject: str, text: str) -> DoctorFinding:
    return DoctorFinding(level=FindingLevel.OK, subject=subject, text=text)


def report_warning(subject: str, text: str, fix: str) -> DoctorFinding:
    return DoctorFinding(level=FindingLevel.WARNING, subject=subject, text=text, fix=fix)


def report_problem(subject: str, text: str, fix: str) -> DoctorFinding:
    return DoctorFinding(level=FindingLevel.PROBLEM, subject=subject, text=text, fix=fix)
