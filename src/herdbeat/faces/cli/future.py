"""Moments ahead as people say them: "2h" (from now), "18:00", "tomorrow 09:00", "2026-03-28", RFC 3339."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.errors import TimeParseError, shown
from herdbeat.faces.cli.times import read_time, within_the_calendar

_SPOKEN = re.compile(
    r"((?P<day>today|tomorrow|[0-9]{4}-[0-9]{2}-[0-9]{2})[\sT]+)?(?P<clock>[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)",
    re.IGNORECASE,
)
_HINT = 'Write for example 2h, 18:00, "tomorrow 09:00", 2026-03-28 or 2026-03-28T18:00:00Z.'


def read_future(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """A time of day alone is the next one to come. Raises TimeParseError or IntervalParseError."""
    written = text.strip()
    parts = _SPOKEN.fullmatch(written)
    if parts is None:
        return read_time(written, now, zone)
    try:
        return within_the_calendar(_spoken(parts, now, zone), written)
    except (ValueError, OverflowError) as error:
        raise TimeParseError(f'"{shown(written)}" is not a time of the calendar.', written, hint=_HINT) from error


def _spoken(parts: re.Match[str], now: datetime, zone: ZoneInfo) -> datetime:
    today = now.astimezone(zone).date()
    clock = time.fromisoformat(parts["clock"].rjust(8 if parts["clock"].count(":") > 1 else 5, "0"))
    moment = _local(_day(parts["day"], today), clock, zone)
    if parts["day"] is None and moment <= now:
        return _local(today + timedelta(days=1), clock, zone)
    return moment


def _day(written: str | None, today: date) -> date:
    match (written or "today").lower():
        case "today":
            return today
        case "tomorrow":
            return today + timedelta(days=1)
        case day:
            return date.fromisoformat(day)


def _local(day: date, clock: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, clock, zone).astimezone(UTC)
