"""From wall-clock times to instants: what a clock change does to them.

In a gap, the offset before the change is the smaller one; in a repeated hour it is the larger. On all
other times `fold` makes no difference.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.triggers.cron.dst import OffsetTransition, first_transition, iter_transitions, utc_offset
from herdbeat.triggers.cron.pattern import CronPattern

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def next_instant(pattern: CronPattern, zone: ZoneInfo, after: datetime) -> datetime:
    """The first instant strictly after `after`, UTC, whole seconds. Raises OverflowError at the calendar's end.

    Takes the short way whenever no clock change can matter.
    """
    if after.tzinfo is not UTC:
        after = after.astimezone(UTC)
    if after.microsecond:
        after = after.replace(microsecond=0)
    shift = pattern.shift
    if shift:
        after -= shift
    if zone.key == "UTC":
        return pattern.first(after + _SECOND) + shift
    local = after.astimezone(zone)
    # One second on the wall, not of real time: one second before a gap that would be past all times in it.
    found = pattern.first(local + _SECOND)
    # Between two times of one zone, Python counts on the wall; from there on we are in UTC, where time is time.
    distance = found - local
    instant = after + distance
    local_instant = instant.astimezone(zone)
    # No zone changes twice within a day, so equal offsets at both ends mean that nothing happened between.
    if local_instant == found and not local.fold and not local_instant.fold and (pattern.is_fixed or distance < _DAY):
        return instant + shift if shift else instant
    if pattern.is_fixed:
        return _next_fixed(pattern, zone, local, found) + shift
    return _next_frequent(pattern, zone, after + _SECOND) + shift


def _next_fixed(pattern: CronPattern, zone: ZoneInfo, local: datetime, found: datetime) -> datetime:
    found = found.replace(tzinfo=None, fold=0)
    if local.fold:
        # The second pass: all its times have run in the first. Go on where the repeated hour ends.
        found = pattern.first(find_transition(zone, local.replace(tzinfo=None)).wall_before)
    early, late = utc_offsets(zone, found)
    if early < late:
        return find_transition(zone, found).at
    return (found - early).replace(tzinfo=UTC)


def _next_frequent(pattern: CronPattern, zone: ZoneInfo, start: datetime) -> datetime:
    """Real time: look on the clock as it goes until the next change, then on the changed clock."""
    while True:
        offset = utc_offset(zone, start)
        found = (pattern.first((start + offset).replace(tzinfo=None)) - offset).replace(tzinfo=UTC)
        transition = first_transition(zone, start, found)
        if transition is None:
            return found
        start = transition.at


def find_transition(zone: ZoneInfo, wall: datetime) -> OffsetTransition:
    """The change that skips or repeats a wall-clock time. There must be one."""
    one, other = ((wall - offset).replace(tzinfo=UTC) for offset in utc_offsets(zone, wall))
    transition = first_transition(zone, min(one, other), max(one, other))
    assert transition is not None
    return transition


def utc_offsets(zone: ZoneInfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """The offsets before and after the change, if `wall` is in one; twice the same if not."""
    early, late = zone.utcoffset(wall.replace(fold=0)), zone.utcoffset(wall.replace(fold=1))
    assert early is not None
    assert late is not None
    return early, late


# How many instants, and which is the newest, without visiting them all.


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
