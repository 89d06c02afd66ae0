"""When the clocks of a zone change. zoneinfo knows, but does not say: it is asked for the offset and halved in on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_SEARCH_STEP = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTransition:
    """From `at` (UTC) on, the offset is `after`; until then it was `before`."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_forward(self) -> bool:
        return self.after > self.before

    @property
    def wall_before(self) -> datetime:
        """What the clocks would have shown. A gap begins here; a repeated hour ends here."""
        return (self.at + self.before).replace(tzinfo=None)

    @property
    def wall_after(self) -> datetime:
        """What the clocks show. A gap ends here; a repeated hour begins here."""
        return (self.at + self.after).replace(tzinfo=None)


def iter_transitions(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[OffsetTransition]:
    """The changes in (after, until], in order. No zone changes twice within a day, so days are looked at."""
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
    """The newest change in (after, until]."""
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
    """The change in (low, high]. Changes happen on whole seconds, so only those are looked at."""
    before = utc_offset(zone, low)
    low, high = (each.astimezone(UTC).replace(microsecond=0) for each in (low, high))
    while high - low > _SECOND:
        middle = low + _SECOND * ((high - low) // _SECOND // 2)
        if utc_offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return OffsetTransition(at=high, before=before, after=utc_offset(zone, high))
