"""Checks of an installation. Each check is a function that yields findings and changes nothing."""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class FindingLevel(StrEnum):
    OK = "well"
    WARNING = "warning"
    PROBLEM = "problem"  # something will not run, or history is in danger


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """`subject` is one short word that a check always uses: config, store, clock, the name of a program."""

    level: FindingLevel
    subject: str
    text: str
    fix: str = ""


report_ok = partial(DoctorFinding, FindingLevel.OK)
report_warning = partial(DoctorFinding, FindingLevel.WARNING)
report_problem = partial(DoctorFinding, FindingLevel.PROBLEM)
