"""Converts the wall-clock times of a pattern to instants in UTC, with regard to clock changes.

In a gap, the offset before the change is the smaller one; in a repeated hour it is the larger one. At all
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
    """Return the first instant strictly after `after`, in whole seconds UTC. Raises OverflowError after year 9999.

    Most calls return early, because no clock change lies between `after` and the result.
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
    # One second of wall time, not of real time: from one second before a gap, real time would skip all times in it.
    candidate = pattern.first(local + _SECOND)
    # The difference of two datetimes of one zone is wall time. Added to UTC it is real time, so the two results agree
    # only if no clock change lies between them.
    distance = candidate - local
    instant = after + distance
    local_instant = instant.astimezone(zone)
    # No zone has two transitions within a day, so equal offsets at both ends mean that there was none between them.
    has_fold = local.fold or local_instant.fold
    if local_instant == candidate and not has_fold and (pattern.is_fixed or distance < _DAY):
        return instant + shift if shift else instant
    if pattern.is_fixed:
        return _next_fixed(pattern, zone, local, candidate) + shift
    return _next_frequent(pattern, zone, after + _SECOND) + shift


def _next_fixed(pattern: CronPattern, zone: ZoneInfo, local: datetime, candidate: datetime) -> datetime:
    candidate = candidate.replace(tzinfo=None, fold=0)
    if local.fold:
        # In the second pass of a repeated hour: its times ran in the first pass. Continue after the hour.
        candidate = pattern.first(find_transition(zone, local.replace(tzinfo=None)).wall_before)
    early, late = utc_offsets(zone, candidate)
    return find_transition(zone, candidate).at if early < late else (candidate - early).replace(tzinfo=UTC)


def _next_frequent(pattern: CronPattern, zone: ZoneInfo, start: datetime) -> datetime:
    """Follow real time: search with the current offset up to the next transition, then with the new offset."""
    while True:
        offset = utc_offset(zone, start)
        instant = (pattern.first((start + offset).replace(tzinfo=None)) - offset).replace(tzinfo=UTC)
        transition = first_transition(zone, start, instant)
        if transition is None:
            return instant
        start = transition.at


def find_transition(zone: ZoneInfo, wall: datetime) -> OffsetTransition:
    """Return the transition that skips or repeats a wall-clock time. The caller knows that there is one."""
    one, other = ((wall - offset).replace(tzinfo=UTC) for offset in utc_offsets(zone, wall))
    transition = first_transition(zone, min(one, other), max(one, other))
    assert transition is not None
    return transition


def utc_offsets(zone: ZoneInfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """Return the offsets before and after the transition that skips or repeats `wall`; else the same offset twice."""
    early, late = zone.utcoffset(wall.replace(fold=0)), zone.utcoffset(wall.replace(fold=1))
    assert early is not None
    assert late is not None
    return early, late


def count_instants(pattern: CronPattern, zone: ZoneInfo, after: datetime, until: datetime) -> int:
    """Return the number of instants in (after, until]. Wall times between two transitions are counted by arithmetic."""
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
    return total + pattern.count(wall, _to_wall(zone, end) + _SECOND)


def latest_instant(
    next_time: Callable[[datetime], datetime | None], after: datetime, until: datetime
) -> datetime | None:
    """Return the newest instant in (after, until], by bisection: `next_time` grows with its argument."""
    low, high = _search_start(next_time, after, until), until
    newest = next_time(low)
    if newest is None or newest > until:
        return None
    while True:
        middle = low + (high - low) / 2
        instant = next_time(middle)
        if instant is not None and instant <= until:
            low = newest = instant
        else:
            high = middle
        if high - low < _SECOND:
            return newest


def _search_start(next_time: Callable[[datetime], datetime | None], after: datetime, until: datetime) -> datetime:
    """Return a moment whose next instant is not after `until`, as near to `until` as the growing steps find one."""
    span = timedelta(minutes=1)
    while until - span > after:
        instant = next_time(until - span)
        if instant is not None and instant <= until:
            return until - span
        span *= 4
    return after


def _first_counted_wall(pattern: CronPattern, zone: ZoneInfo, after: datetime) -> datetime:
    """Return where counting begins. Fixed times do not count again in the second pass of a repeated hour."""
    local = after.astimezone(zone)
    wall = local.replace(tzinfo=None, fold=0)
    return find_transition(zone, wall).wall_before if pattern.is_fixed and local.fold else wall + _SECOND


def _count_moved(pattern: CronPattern, transition: OffsetTransition) -> int:
    """Return 1 if the gap moves times to its end and no time matches there already, else 0.

    However many times the gap moves, they become one instant.
    """
    end = transition.wall_after
    moves_any = transition.is_forward and pattern.count(transition.wall_before, end) > 0
    return int(moves_any and not pattern.count(end, end + _SECOND))


def _to_wall(zone: ZoneInfo, moment: datetime) -> datetime:
    return (moment + utc_offset(zone, moment)).replace(tzinfo=None)


def _floor_to_second(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)
