"""What a clock change did to an instant, in data and in words."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from herdbeat.triggers.cron.changes import Change, first_change, last_change, offset_at
from herdbeat.triggers.cron.instants import change_around
from herdbeat.triggers.cron.pattern import Pattern


class NoteKind(StrEnum):
    MOVED = "moved"  # its time does not exist that night; it runs right after the gap
    REPEATED = "repeated"  # its time comes twice that night
    CHANGED = "changed"  # the clocks changed since the instant before


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One remark about one instant. `change_at` is when the clocks change, `nominal` the written wall time."""

    kind: NoteKind
    text: str
    change_at: datetime
    nominal: datetime | None = None


def notes(pattern: Pattern, zone: ZoneInfo, instant: datetime, previous: datetime | None) -> tuple[Note, ...]:
    """The remarks about `instant`; most have none."""
    note = _moved(pattern, zone, instant - pattern.shift) or _repeated(pattern, zone, instant)
    if note is None and previous is not None:
        note = _changed(zone, previous, instant)
    return (note,) if note else ()


def _moved(pattern: Pattern, zone: ZoneInfo, instant: datetime) -> Note | None:
    change = first_change(zone, instant - timedelta(seconds=1), instant)
    if not pattern.is_fixed or change is None or not change.is_forward:
        return None
    nominal = pattern.first(change.wall_before)
    if nominal >= change.wall_after:
        return None
    text = f"{nominal:%H:%M} does not exist that night; runs at {change.wall_after:%H:%M}"
    return Note(kind=NoteKind.MOVED, text=text, change_at=change.at, nominal=nominal)


def _repeated(pattern: Pattern, zone: ZoneInfo, instant: datetime) -> Note | None:
    wall = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    if zone.utcoffset(wall) == zone.utcoffset(wall.replace(fold=1)):
        return None
    times = "the first time" if pattern.is_fixed else "both times"
    text = f"{wall:%H:%M} happens twice that night; runs {times}"
    return Note(kind=NoteKind.REPEATED, text=text, change_at=change_around(zone, wall).at, nominal=wall)


def _changed(zone: ZoneInfo, previous: datetime, instant: datetime) -> Note | None:
    if offset_at(zone, previous) == offset_at(zone, instant):
        return None
    change = last_change(zone, previous, instant)
    assert change is not None
    direction = "forward" if change.is_forward else "back"
    text = f"clocks went {direction} on {_date(change)}"
    return Note(kind=NoteKind.CHANGED, text=text, change_at=change.at)


def _date(change: Change) -> str:
    """The local date of a change; one at midnight belongs to the night that it ends."""
    day = change.wall_after if change.is_forward else change.wall_before - timedelta(seconds=1)
    return f"{day.day} {day:%b}"
