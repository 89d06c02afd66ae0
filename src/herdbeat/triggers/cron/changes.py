"""When the clocks of a zone change. zoneinfo knows, but does not say: it is asked for the offset and halved in on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_STEP = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
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


def changes(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[Change]:
    """The changes in (after, until], in order. No zone changes twice within a day, so days are looked at."""
    low, offset = after, offset_at(zone, after)
    while low < until:
        high = min(low + _STEP, until)
        if offset_at(zone, high) == offset:
            low = high
            continue
        change = _narrow(zone, low, high)
        yield change
        low, offset = change.at, change.after


def first_change(zone: ZoneInfo, after: datetime, until: datetime) -> Change | None:
    return next(changes(zone, after, until), None)


def last_change(zone: ZoneInfo, after: datetime, until: datetime) -> Change | None:
    """The newest change in (after, until]."""
    high, offset = until, offset_at(zone, until)
    while high > after:
        low = max(high - _STEP, after)
        if offset_at(zone, low) != offset:
            return _narrow(zone, low, high)
        high = low
    return None


def offset_at(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None  # a ZoneInfo always has one
    return offset


def _narrow(zone: ZoneInfo, low: datetime, high: datetime) -> Change:
    """The change in (low, high]. Changes happen on whole seconds, so only those are looked at."""
    before = offset_at(zone, low)
    low, high = (each.astimezone(UTC).replace(microsecond=0) for each in (low, high))
    while high - low > _SECOND:
        middle = low + _SECOND * ((high - low) // _SECOND // 2)
        if offset_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return Change(at=high, before=before, after=offset_at(zone, high))
