"""Noticing lost time: three clocks that drift apart say whether the machine slept, or its clock was moved.

The wall clock shows what people see. MONOTONIC stands still while the machine is suspended, BOOTTIME does not.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import MissedReason
from herdbeat.domain.gap import Gap

TOLERANCE = timedelta(seconds=2)
"""Less than this is a slow machine or a clock being disciplined, not lost time."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The three clocks at one moment."""

    wall: datetime
    monotonic: float
    boottime: float


def lost_time(before: Reading, after: Reading, silence: timedelta) -> Gap | None:
    """The gap between two signs of life, if there is one.

    `silence` is how long a living node may be quiet: a process that was stopped, or starved for longer, slept too.
    """
    ran = timedelta(seconds=after.monotonic - before.monotonic)
    passed = timedelta(seconds=after.boottime - before.boottime)
    shown = after.wall - before.wall
    if shown - passed > TOLERANCE:
        return Gap(from_at=before.wall, until=after.wall, reason=MissedReason.CLOCK_JUMPED)
    if passed - ran > TOLERANCE or ran > silence:
        return Gap(from_at=before.wall, until=max(after.wall, before.wall), reason=MissedReason.SLEPT)
    return None


def went_back(before: Reading, after: Reading) -> bool:
    """True if the wall clock was put back: marks and anchors may now lie in the future."""
    passed = timedelta(seconds=after.boottime - before.boottime)
    return passed - (after.wall - before.wall) > TOLERANCE
