"""What a clock change did to an instant, in data and in words."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from herdbeat.triggers.cron.changes import OffsetTransition, first_transition, last_transition, utc_offset
from herdbeat.triggers.cron.instants import find_transition
from herdbeat.triggers.cron.pattern import CronPattern


class DstNoteKind(StrEnum):
    MOVED = "moved"  # its time does not exist that night; it runs right after the gap
    REPEATED = "repeated"  # its time comes twice that night
    CHANGED = "changed"  # the clocks changed since the instant before


@dataclass(frozen=True, slots=True, kw_only=True)
class DstNote:
    """One remark about one instant. `change_at` is when the clocks change, `nominal` the written wall time."""

    kind: DstNoteKind
    text: str
    change_at: datetime
    nominal: datetime | None = None


def find_dst_notes(
    pattern: CronPattern, zone: ZoneInfo, instant: datetime, previous: datetime | None
) -> tuple[DstNote, ...]:
    """The remarks about `instant`; most have none."""
    note = _moved_note(pattern, zone, instant - pattern.shift) or _repeated_note(pattern, zone, instant)
    if note is None and previous is not None:
        note = _changed_note(zone, previous, instant)
    return (note,) if note else ()


def _moved_note(pattern: CronPattern, zone: ZoneInfo, instant: datetime) -> DstNote | None:
    transition = first_transition(zone, instant - timedelta(seconds=1), instant)
    if not pattern.is_fixed or transition is None or not transition.is_forward:
        return None
    nominal = pattern.first(transition.wall_before)
    if nominal >= transition.wall_after:
        return None
    text = f"{nominal:%H:%M} does not exist that night; runs at {transition.wall_after:%H:%M}"
    return DstNote(kind=DstNoteKind.MOVED, text=text, change_at=transition.at, nominal=nominal)


def _repeated_note(pattern: CronPattern, zone: ZoneInfo, instant: datetime) -> DstNote | None:
    wall = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    if zone.utcoffset(wall) == zone.utcoffset(wall.replace(fold=1)):
        return None
    times = "the first time" if pattern.is_fixed else "both times"
    text = f"{wall:%H:%M} happens twice that night; runs {times}"
    return DstNote(kind=DstNoteKind.REPEATED, text=text, change_at=find_transition(zone, wall).at, nominal=wall)


def _changed_note(zone: ZoneInfo, previous: datetime, instant: datetime) -> DstNote | None:
    if utc_offset(zone, previous) == utc_offset(zone, instant):
        return None
    transition = last_transition(zone, previous, instant)
    assert transition is not None
    direction = "forward" if transition.is_forward else "back"
    text = f"clocks went {direction} on {_transition_date(transition)}"
    return DstNote(kind=DstNoteKind.CHANGED, text=text, change_at=transition.at)


def _transition_date(transition: OffsetTransition) -> str:
    """The local date of a change; one at midnight belongs to the night that it ends."""
    day = transition.wall_after if transition.is_forward else transition.wall_before - timedelta(seconds=1)
    return f"{day.day} {day:%b}"
