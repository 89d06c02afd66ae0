"""Times as people write them on a command line or in chat, with the zone they are read in.

All understand RFC 3339, a day ("2026-03-28") and a duration ("2h"). For a moment ahead, a bare clock ("18:00") is the
next one and a duration counts from now, also as "in 2h"; for one in the past, it is the last one and a duration counts
back.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.durations import parse_duration
from herdbeat.errors import TimeParseError, UsageError, truncate_for_message
from herdbeat.timestamps import parse_timestamp, require_supported_year

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_IN_PATTERN = re.compile(r"in\s+(?=[0-9])", re.IGNORECASE)
_RELATIVE_PATTERN = re.compile(r"[+-]?[0-9]+[.,]?[0-9]*\s*[a-z]{0,2}", re.IGNORECASE)
_CLOCK = r"(?P<clock>[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)"
_FUTURE_PATTERN = re.compile(rf"((?P<day>today|tomorrow|{_DATE})[\sT]+)?{_CLOCK}", re.IGNORECASE)
_FUTURE_HINT = 'Use for example 2h, 18:00, "tomorrow 09:00", 2026-03-28 or 2026-03-28T18:00:00Z.'
_PAST_PATTERN = re.compile(rf"(?P<day>today|yesterday|{_DATE})?[\sT]*{_CLOCK}?", re.IGNORECASE)
_PAST_HINT = 'Use for example 2h (ago), 09:00, "yesterday 09:00", 2026-03-26 or 2026-03-26T09:00:00Z.'
_AGO_PATTERN = re.compile(r"-?\s*(?P<duration>[0-9]+\s*[a-z]*)(\s+ago)?", re.IGNORECASE)
_AHEAD_PATTERN = re.compile(r"(\+|in\s)\s*(?P<rest>.+)|(?P<tomorrow>tomorrow.*)", re.IGNORECASE)
_BARE_DURATION_PATTERN = re.compile(r"[0-9]+\s*[a-z]+", re.IGNORECASE)
_DAY_OFFSETS = {"today": 0, "tomorrow": 1, "yesterday": -1}


def parse_time(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment of "2026-03-28" (midnight in the zone), RFC 3339, or a duration from now: "2h", "-1d".

    Raises TimeParseError or IntervalParseError, by what the text looks like.
    """
    written = text.strip()
    try:
        moment = _parse_time_text(written, now, zone)
    except OverflowError as error:
        raise TimeParseError(f'"{written}" is out of range.', written, hint=_FUTURE_HINT) from error
    return require_supported_year(moment, written)


def parse_future_time(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Return a moment ahead; a clock alone is the next one. Raises TimeParseError or IntervalParseError."""
    written = text.strip()
    if written.lower() == "now":
        return now
    if phrase := _FUTURE_PATTERN.fullmatch(written):
        return _resolve_near(phrase, now, zone, is_future=True)
    try:
        return parse_time(written, now, zone)
    except TimeParseError as error:
        raise TimeParseError(error.message, written, hint=_FUTURE_HINT) from error


def parse_period_end(text: str, start: datetime, now: datetime, zone: ZoneInfo) -> datetime:
    """Return the end of a period that lies ahead: the first such clock, or a duration, after its start.

    "in 3h" counts from now, because `--from "in 1h" --until "in 3h"` means two hours.
    """
    return parse_future_time(text, now if _IN_PATTERN.match(text.strip()) else start, zone)


def parse_past_time(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Return a moment in the past; a clock alone is the last one. Raises TimeParseError or IntervalParseError."""
    written = text.strip()
    if written.lower() == "now":
        return now
    if ago := _AGO_PATTERN.fullmatch(written):
        return _subtract_duration(now, ago["duration"], written)
    phrase = _PAST_PATTERN.fullmatch(written)
    if not written or phrase is None:
        return parse_time(written, now, zone)
    return _resolve_near(phrase, now, zone, is_future=False)


def parse_moment(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Return a moment on either side of now: "+5m", "in 5m" and "tomorrow 09:00" lie ahead, all else as in the past."""
    written = text.strip()
    ahead = _AHEAD_PATTERN.fullmatch(written)
    if ahead is None:
        return parse_past_time(written, now, zone)
    return parse_future_time(ahead["rest"] or ahead["tomorrow"], now, zone)


def parse_end_in_past(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Return a moment in the past that ends a period. Raises UsageError for a bare duration.

    "5m" may mean five minutes ago, or five minutes after the start of the period.
    """
    written = text.strip()
    if _BARE_DURATION_PATTERN.fullmatch(written):
        hint = f'Use "{written} ago", or a time such as 09:00 or 2026-03-26T09:00:00Z.'
        raise UsageError(
            f'"{truncate_for_message(written)}" is ambiguous: it can count from now or from the start.', hint=hint
        )
    return parse_past_time(written, now, zone)


def _resolve_near(phrase: re.Match[str], now: datetime, zone: ZoneInfo, *, is_future: bool) -> datetime:
    """Return the moment of a phrase. A clock that lies on the wrong side of now is that of the next or last day."""
    written = phrase.string
    try:
        moment = _resolve_phrase(phrase, now, zone)
        if phrase["day"] is None and (moment <= now if is_future else moment > now):
            moment = _resolve_phrase(phrase, now, zone, day_offset=1 if is_future else -1)
        return require_supported_year(moment, written)
    except (ValueError, OverflowError) as error:
        message = f'"{truncate_for_message(written)}" is not a valid time.'
        raise TimeParseError(message, written, hint=_FUTURE_HINT if is_future else _PAST_HINT) from error


def _resolve_phrase(phrase: re.Match[str], now: datetime, zone: ZoneInfo, *, day_offset: int = 0) -> datetime:
    """Return the moment of `[day] [clock]` in the zone: today without a day, midnight without a clock."""
    day_text, clock_text = (phrase["day"] or "today").lower(), phrase["clock"] or "00:00"
    clock = time.fromisoformat(clock_text if clock_text[2:3] == ":" else f"0{clock_text}")
    if day_text in _DAY_OFFSETS:
        day = now.astimezone(zone).date() + timedelta(days=_DAY_OFFSETS[day_text] + day_offset)
    else:
        day = date.fromisoformat(day_text)
    return datetime.combine(day, clock, zone).astimezone(UTC)


def _subtract_duration(now: datetime, duration: str, written: str) -> datetime:
    try:
        return now - parse_duration(duration)
    except OverflowError as error:
        raise TimeParseError(f'"{written}" is out of range.', written, hint=_PAST_HINT) from error


def _parse_time_text(written: str, now: datetime, zone: ZoneInfo) -> datetime:
    if re.fullmatch(_DATE, written):
        return _parse_date(written, zone)
    relative = _IN_PATTERN.sub("", written, count=1)
    if _RELATIVE_PATTERN.fullmatch(relative):
        sign = -1 if relative.startswith("-") else 1
        return now + sign * parse_duration(relative.lstrip("+-"))
    return parse_timestamp(written)


def _parse_date(written: str, zone: ZoneInfo) -> datetime:
    try:
        return datetime.fromisoformat(written).replace(tzinfo=zone).astimezone(UTC)
    except ValueError as error:
        hint = "Use for example 2026-03-28."
        raise TimeParseError(f'"{written}" is not a valid date.', written, hint=hint) from error
