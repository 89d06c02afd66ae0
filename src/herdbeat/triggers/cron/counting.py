"""How many instants, and which is the newest, without visiting them all."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.triggers.cron.changes import Change, changes, offset_at
from herdbeat.triggers.cron.instants import change_around
from herdbeat.triggers.cron.pattern import Pattern

_SECOND = timedelta(seconds=1)


def count(pattern: Pattern, zone: ZoneInfo, after: datetime, until: datetime) -> int:
    """The number of instants in (after, until]: between two clock changes, wall time is counted at once."""
    start, end = _floor(after) - pattern.shift, _floor(until) - pattern.shift
    if start >= end:
        return 0
    total = 0
    wall = _first_wall(pattern, zone, start)
    for change in changes(zone, start, end):
        total += pattern.count(wall, change.wall_before)
        wall = change.wall_after
        if pattern.is_fixed:
            total += _moved(pattern, change)
            wall = max(change.wall_before, change.wall_after)
    return total + pattern.count(wall, _wall(zone, end) + _SECOND)


def latest(next_time: Callable[[datetime], datetime | None], after: datetime, until: datetime) -> datetime | None:
    """The newest instant in (after, until], by halving: the later one asks from, the later the answer."""
    low, high = _reach_back(next_time, after, until), until
    newest = next_time(low)
    if newest is None or newest > until:
        return None
    while True:
        middle = low + (high - low) / 2
        found = next_time(middle)
        if found is not None and found <= until:
            low = newest = found
        else:
            high = middle
        if high - low < _SECOND:
            return newest


def _reach_back(next_time: Callable[[datetime], datetime | None], after: datetime, until: datetime) -> datetime:
    """A moment from which the next instant is not past `until`, found near `until` first."""
    span = timedelta(minutes=1)
    while until - span > after:
        found = next_time(until - span)
        if found is not None and found <= until:
            return until - span
        span *= 4
    return after


def _first_wall(pattern: Pattern, zone: ZoneInfo, after: datetime) -> datetime:
    """Where counting begins; fixed times do not count again in the second pass of a repeated hour."""
    local = after.astimezone(zone)
    wall = local.replace(tzinfo=None, fold=0)
    if pattern.is_fixed and local.fold:
        return change_around(zone, wall).wall_before
    return wall + _SECOND


def _moved(pattern: Pattern, change: Change) -> int:
    """1 if a gap moved times to its end where none was planned, else 0: however many moved, it is one instant."""
    if not change.is_forward or not pattern.count(change.wall_before, change.wall_after):
        return 0
    return 0 if pattern.count(change.wall_after, change.wall_after + _SECOND) else 1


def _wall(zone: ZoneInfo, moment: datetime) -> datetime:
    return (moment + offset_at(zone, moment)).replace(tzinfo=None)


def _floor(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)
