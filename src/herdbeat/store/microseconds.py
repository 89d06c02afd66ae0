"""Times as the tables have them: whole microseconds, UTC. Only the store knows."""

from datetime import UTC, datetime, timedelta
from typing import overload

from herdbeat.timestamps import CALENDAR_END, CALENDAR_START, clamp_to_calendar

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (CALENDAR_START - _EPOCH) // _MICROSECOND
_LAST = (CALENDAR_END - _EPOCH) // _MICROSECOND


@overload
def to_micros(moment: datetime) -> int: ...
@overload
def to_micros(moment: None) -> None: ...
def to_micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


@overload
def from_micros(micros: int) -> datetime: ...
@overload
def from_micros(micros: None) -> None: ...
def from_micros(micros: int | None) -> datetime | None:
    """Times at the ends of the calendar are cut (`clamp_to_calendar`). Raises OverflowError beyond them."""
    if micros is None:
        return None
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment if _FIRST <= micros <= _LAST else clamp_to_calendar(moment)


def from_any_micros(micros: int) -> datetime:
    """The same for screens: a damaged row shows an odd time, and does not hide the rows beside it."""
    return from_micros(min(max(micros, _FIRST), _LAST))
