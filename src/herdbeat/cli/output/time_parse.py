"""Moments in the past as people say them: "5m" (ago), "09:00", "yesterday 09:00", "2026-03-26", RFC 3339."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.cli.output.time_format import parse_time, require_supported_year
from herdbeat.durations import parse_duration
from herdbeat.errors import TimeParseError, truncate_for_message

# Moments ahead as people say them: "2h" (from now), "18:00", "tomorrow 09:00", "2026-03-28", RFC 3339.


_FUTURE_PATTERN = re.compile(
    r"((?P<day>today|tomorrow|[0-9]{4}-[0-9]{2}-[0-9]{2})[\sT]+)?(?P<clock>[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)",
    re.IGNORECASE,
)
_FUTURE_HINT = 'Write for example 2h, 18:00, "tomorrow 09:00", 2026-03-28 or 2026-03-28T18:00:00Z.'


def parse_future_time(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """A time of day alone is the next one to come. Raises TimeParseError or IntervalParseError."""
    written = text.strip()
    parts = _FUTURE_PATTERN.fullmatch(written)
    if parts is None:
        return parse_time(written, now, zone)
    try:
        return require_supported_year(_parse_future_phrase(parts, now, zone), written)
    except (ValueError, OverflowError) as error:
        raise TimeParseError(
            f'"{truncate_for_message(written)}" is not a time of the calendar.', written, hint=_FUTURE_HINT
        ) from error


def _parse_future_phrase(parts: re.Match[str], now: datetime, zone: ZoneInfo) -> datetime:
    today = now.astimezone(zone).date()
    clock = time.fromisoformat(parts["clock"].rjust(8 if parts["clock"].count(":") > 1 else 5, "0"))
    moment = _local_to_utc(_parse_future_day(parts["day"], today), clock, zone)
    if parts["day"] is None and moment <= now:
        return _local_to_utc(today + timedelta(days=1), clock, zone)
    return moment


def _parse_future_day(written: str | None, today: date) -> date:
    match (written or "today").lower():
        case "today":
            return today
        case "tomorrow":
            return today + timedelta(days=1)
        case day:
            return date.fromisoformat(day)


def _local_to_utc(day: date, clock: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, clock, zone).astimezone(UTC)


_AGO_PATTERN = re.compile(r"-?\s*(?P<duration>[0-9]+\s*[a-z]*)(\s+ago)?", re.IGNORECASE)
_PAST_PATTERN = re.compile(
    r"(?P<day>today|yesterday|[0-9]{4}-[0-9]{2}-[0-9]{2})?[\sT]*(?P<clock>[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)?",
    re.IGNORECASE,
)
_PAST_HINT = 'Write for example 2h (ago), 09:00, "yesterday 09:00", 2026-03-26 or 2026-03-26T09:00:00Z.'


def parse_past_time(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """A time of day alone is the last one that has passed. Raises TimeParseError or IntervalParseError."""
    written = text.strip()
    if parts := _AGO_PATTERN.fullmatch(written):
        return _subtract_duration(now, parts["duration"], written)
    parts = _PAST_PATTERN.fullmatch(written)
    if not written or parts is None:
        return parse_time(written, now, zone)
    try:
        return require_supported_year(_parse_past_phrase(parts, now, zone), written)
    except (ValueError, OverflowError) as error:
        raise TimeParseError(f'"{written}" is not a time of the calendar.', written, hint=_PAST_HINT) from error


def _subtract_duration(now: datetime, duration: str, written: str) -> datetime:
    try:
        return now - parse_duration(duration)
    except OverflowError as error:
        raise TimeParseError(f'"{written}" is too far away.', written, hint=_PAST_HINT) from error


def _parse_past_phrase(parts: re.Match[str], now: datetime, zone: ZoneInfo) -> datetime:
    today = now.astimezone(zone).date()
    clock = time.fromisoformat(parts["clock"].rjust(5, "0")) if parts["clock"] else time()
    moment = _past_local_to_utc(_parse_past_day(parts["day"], today), clock, zone)
    if parts["day"] is None and moment > now:
        return _past_local_to_utc(today - timedelta(days=1), clock, zone)
    return moment


def _parse_past_day(written: str | None, today: date) -> date:
    if written is None or written.lower() == "today":
        return today
    return today - timedelta(days=1) if written.lower() == "yesterday" else date.fromisoformat(written)


def _past_local_to_utc(day: date, clock: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, clock, zone).astimezone(UTC)
