"""Noticing lost time: three clocks that drift apart say whether the machine slept, or its clock was moved.

The wall clock shows what people see. MONOTONIC stands still while the machine is suspended, BOOTTIME does not.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import Gap, MissedReason

DRIFT_TOLERANCE = timedelta(seconds=2)
"""Less than this is a slow machine or a clock being disciplined, not lost time."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The three clocks at one moment."""

    wall: datetime
    monotonic: float
    boottime: float


def detect_gap(before: ClockReading, after: ClockReading, max_silence: timedelta) -> Gap | None:
    """The gap between two signs of life, if there is one.

    `silence` is how long a living node may be quiet: a process that was stopped, or starved for longer, slept too.
    """
    monotonic_elapsed = timedelta(seconds=after.monotonic - before.monotonic)
    boottime_elapsed = timedelta(seconds=after.boottime - before.boottime)
    wall_elapsed = after.wall - before.wall
    if wall_elapsed - boottime_elapsed > DRIFT_TOLERANCE:
        return Gap(from_at=before.wall, until=after.wall, reason=MissedReason.CLOCK_JUMPED)
    if boottime_elapsed - monotonic_elapsed > DRIFT_TOLERANCE or monotonic_elapsed > max_silence:
        return Gap(from_at=before.wall, until=max(after.wall, before.wall), reason=MissedReason.SLEPT)
    return None


def has_clock_moved_back(before: ClockReading, after: ClockReading) -> bool:
    """True if the wall clock was put back: marks and anchors may now lie in the future."""
    boottime_elapsed = timedelta(seconds=after.boottime - before.boottime)
    return boottime_elapsed - (after.wall - before.wall) > DRIFT_TOLERANCE
