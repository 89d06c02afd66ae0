"""Past due instants as ranges: a year of outage is three numbers, not half a million rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.trigger import InstantSeries, Trigger

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class InstantRange:
    """Consecutive instants of one schedule: first, last, and how many. Never empty."""

    first: datetime
    last: datetime
    count: int = 1

    @classmethod
    def single(cls, instant: datetime) -> "InstantRange":
        return cls(instant, instant)


def due_since(trigger: Trigger, first: datetime, until: datetime) -> InstantRange:
    """Return `first`, which is due, and what its trigger had after it up to `until`."""
    if not isinstance(trigger, InstantSeries) or (last := trigger.latest(first, until)) is None:
        return InstantRange.single(first)
    return InstantRange(first, last, 1 + trigger.count(first, until))


def split_at(
    trigger: Trigger, instants: InstantRange, moment: datetime
) -> tuple[InstantRange | None, InstantRange | None]:
    """Split into those at or before the moment, and those after it."""
    if instants.last <= moment:
        return instants, None
    if instants.first > moment:
        return None, instants
    early = due_since(trigger, instants.first, moment)
    late_first = trigger.next_time(None, early.last)
    assert late_first is not None
    return early, InstantRange(late_first, instants.last, instants.count - early.count)


def without_recorded(
    trigger: Trigger, instants: InstantRange, recorded: Sequence[tuple[datetime, datetime]]
) -> list[InstantRange]:
    """Return what is left without the instants of some rows (first, last), which are in order of time."""
    if instants.count == 1:
        is_recorded = any(first <= instants.first <= last for first, last in recorded)
        return [] if is_recorded else [instants]
    ranges: list[InstantRange] = []
    rest: InstantRange | None = instants
    for first, last in _join_neighbours(trigger, recorded):
        if rest is None:
            break
        before, rest = split_at(trigger, rest, first - _TICK)
        ranges += [before] if before is not None else []
        if rest is not None:
            _, rest = split_at(trigger, rest, last)
    return [*ranges, rest] if rest is not None else ranges


def _join_neighbours(
    trigger: Trigger, recorded: Sequence[tuple[datetime, datetime]]
) -> list[tuple[datetime, datetime]]:
    """Join rows between which the calendar has no instant: an hour of beats is then one range."""
    joined: list[tuple[datetime, datetime]] = []
    for first, last in recorded:
        following = trigger.next_time(None, joined[-1][1]) if joined else None
        if following is not None and following >= first:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def insert_moments(trigger: Trigger, instants: InstantRange, moments: Sequence[datetime]) -> list[InstantRange]:
    """Return the instants with the moments between them, in order of time. Each moment is a range of its own.

    The first of the instants may be such a moment itself.
    """
    ranges: list[InstantRange] = []
    rest: InstantRange | None = instants
    for moment in sorted(set(moments)):
        if rest is None or not instants.first <= moment < instants.last:
            continue
        before, rest = split_at(trigger, rest, moment)
        ranges += [before] if before is not None else []
        if before is None or before.last != moment:
            ranges.append(InstantRange.single(moment))
    return [*ranges, rest] if rest is not None else ranges


def split_first(trigger: Trigger, instants: InstantRange) -> tuple[InstantRange, InstantRange | None]:
    """Return the first instant, and the rest."""
    if instants.count == 1:
        return instants, None
    following = trigger.next_time(None, instants.first)
    assert following is not None
    return InstantRange.single(instants.first), InstantRange(following, instants.last, instants.count - 1)


def take_newest(trigger: Trigger, instants: InstantRange, limit: int) -> tuple[InstantRange | None, list[datetime]]:
    """Return the older rest as a range, and the newest `limit` one by one."""
    if instants.count == 1 or not isinstance(trigger, InstantSeries):
        return None, [instants.last]
    rest = _drop_newest(trigger, instants, limit)
    listed: list[datetime] = []
    instant = instants.first if rest is None else trigger.next_time(None, rest.last)
    while instant is not None and instant <= instants.last:
        listed.append(instant)
        instant = trigger.next_time(None, instant)
    return rest, listed


def take_oldest(trigger: Trigger, instants: InstantRange, limit: int) -> tuple[InstantRange, InstantRange | None]:
    """Return the first `limit` (at least one), and the rest."""
    if instants.count <= limit or not isinstance(trigger, InstantSeries):
        return instants, None
    first = _drop_newest(trigger, instants, instants.count - limit)
    assert first is not None
    following = trigger.next_time(None, first.last)
    assert following is not None
    return first, InstantRange(following, instants.last, instants.count - first.count)


def _drop_newest(trigger: InstantSeries, instants: InstantRange, dropped: int) -> InstantRange | None:
    """Return all but the newest ones. Found by bisecting the time, because counting is cheap and iterating is not."""
    kept_count = instants.count - dropped
    if kept_count <= 0:
        return None
    low, high = instants.first, instants.last
    while True:
        middle = low + (high - low) / 2
        count_so_far = 1 + trigger.count(instants.first, middle)
        if count_so_far == kept_count:
            last = trigger.latest(instants.first, middle) or instants.first
            return InstantRange(instants.first, last, kept_count)
        low, high = (middle, high) if count_so_far < kept_count else (low, middle)
