"""How many instants, and which is the newest, without visiting them all."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.triggers.cron.changes import OffsetTransition, iter_transitions, utc_offset
from herdbeat.triggers.cron.instants import find_transition
from herdbeat.triggers.cron.pattern import CronPattern

_COUNT_RESOLUTION = timedelta(seconds=1)


def count_instants(pattern: CronPattern, zone: ZoneInfo, after: datetime, until: datetime) -> int:
    """The number of instants in (after, until]: between two clock changes, wall time is counted at once."""
    start, end = _floor_to_second(after) - pattern.shift, _floor_to_second(until) - pattern.shift
    if start >= end:
        return 0
    total = 0
    wall = _first_counted_wall(pattern, zone, start)
    for transition in iter_transitions(zone, start, end):
        total += pattern.count(wall, transition.wall_before)
        wall = transition.wall_after
        if pattern.is_fixed:
            total += _count_moved(pattern, transition)
            wall = max(transition.wall_before, transition.wall_after)
    return total + pattern.count(wall, _to_wall(zone, end) + _COUNT_RESOLUTION)


def latest_instant(
    next_time: Callable[[datetime], datetime | None], after: datetime, until: datetime
) -> datetime | None:
    """The newest instant in (after, until], by halving: the later one asks from, the later the answer."""
    low, high = _search_start(next_time, after, until), until
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
        if high - low < _COUNT_RESOLUTION:
            return newest


def _search_start(next_time: Callable[[datetime], datetime | None], after: datetime, until: datetime) -> datetime:
    """A moment from which the next instant is not past `until`, found near `until` first."""
    span = timedelta(minutes=1)
    while until - span > after:
        found = next_time(until - span)
        if found is not None and found <= until:
            return until - span
        span *= 4
    return after


def _first_counted_wall(pattern: CronPattern, zone: ZoneInfo, after: datetime) -> datetime:
    """Where counting begins; fixed times do not count again in the second pass of a repeated hour."""
    local = after.astimezone(zone)
    wall = local.replace(tzinfo=None, fold=0)
    if pattern.is_fixed and local.fold:
        return find_transition(zone, wall).wall_before
    return wall + _COUNT_RESOLUTION


def _count_moved(pattern: CronPattern, transition: OffsetTransition) -> int:
    """1 if a gap moved times to its end where none was planned, else 0: however many moved, it is one instant."""
    if not transition.is_forward or not pattern.count(transition.wall_before, transition.wall_after):
        return 0
    return 0 if pattern.count(transition.wall_after, transition.wall_after + _COUNT_RESOLUTION) else 1


def _to_wall(zone: ZoneInfo, moment: datetime) -> datetime:
    return (moment + utc_offset(zone, moment)).replace(tzinfo=None)


def _floor_to_second(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)
