"""Offset transitions: when the clocks of a zone change.

zoneinfo has no function that lists the transitions of a zone, so they are found by bisection over its UTC offsets.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_SEARCH_STEP = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTransition:
    """A change of the UTC offset: it is `before` until `at` (UTC), and `after` from then on."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_forward(self) -> bool:
        return self.after > self.before

    @property
    def wall_before(self) -> datetime:
        """The wall time at the transition by the old offset. A gap begins here; a repeated hour ends here."""
        return (self.at + self.before).replace(tzinfo=None)

    @property
    def wall_after(self) -> datetime:
        """The wall time at the transition by the new offset. A gap ends here; a repeated hour begins here."""
        return (self.at + self.after).replace(tzinfo=None)


def iter_transitions(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[OffsetTransition]:
    """Yield the transitions in (after, until], in order. No zone has two within a day, so the search steps by days."""
    low, offset = after, utc_offset(zone, after)
    while low < until:
        high = min(low + _SEARCH_STEP, until)
        if utc_offset(zone, high) == offset:
            low = high
            continue
        transition = _bisect_transition(zone, low, high)
        yield transition
        low, offset = transition.at, transition.after


def first_transition(zone: ZoneInfo, after: datetime, until: datetime) -> OffsetTransition | None:
    return next(iter_transitions(zone, after, until), None)


def last_transition(zone: ZoneInfo, after: datetime, until: datetime) -> OffsetTransition | None:
    """Return the newest transition in (after, until]; None if there is none."""
    high, offset = until, utc_offset(zone, until)
    while high > after:
        low = max(high - _SEARCH_STEP, after)
        if utc_offset(zone, low) != offset:
            return _bisect_transition(zone, low, high)
        high = low
    return None


def utc_offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None  # a ZoneInfo always has one
    return offset


def _bisect_transition(zone: ZoneInfo, low: datetime, high: datetime) -> OffsetTransition:
    """Return the transition in (low, high], of which there is one. Transitions are at whole seconds."""
    before = utc_offset(zone, low)
    low, high = low.astimezone(UTC).replace(microsecond=0), high.astimezone(UTC).replace(microsecond=0)
    while high - low > _SECOND:
        middle = low + _SECOND * ((high - low) // _SECOND // 2)
        if utc_offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return OffsetTransition(at=high, before=before, after=utc_offset(zone, high))
