"""Times as people read them, and as they write them on a command line."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.cli import spec as flags
from herdbeat.cli.parser import ParsedArgs
from herdbeat.durations import humanize, parse_duration
from herdbeat.errors import TimeParseError, UsageError
from herdbeat.timestamps import parse_timestamp, parse_zone

FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Far from both ends of the calendar, so that nothing near a time can fall off it."""

_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RELATIVE_PATTERN = re.compile(r"[+-]?[0-9]+[.,]?[0-9]*\s*[a-z]{0,2}", re.IGNORECASE)


def parse_time(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Read "2026-03-28" (midnight in the zone), RFC 3339, or a duration from now: "2h", "-1d".

    Raises TimeParseError or IntervalParseError, by what the text looks like.
    """
    written = text.strip()
    try:
        moment = _parse_time_text(written, now, zone)
    except OverflowError as error:
        raise _out_of_range_error(written) from error
    return require_supported_year(moment, written)


def require_supported_year(moment: datetime, written: str) -> datetime:
    """The moment itself. Raises TimeParseError for one that is too far away."""
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise _out_of_range_error(written)
    return moment


def parse_zone_flags(args: ParsedArgs) -> ZoneInfo | None:
    """The zone that --tz or --utc asks for; None if neither does."""
    name = args.value(flags.ZONE)
    if args.has(flags.UTC):
        if name is not None:
            raise UsageError("--utc and --tz exclude each other.", hint="Keep the one you mean.")
        return ZoneInfo("UTC")
    return None if name is None else parse_zone(name)


def format_date(moment: datetime, zone: ZoneInfo) -> str:
    """Fri 27 Mar 2026"""
    return moment.astimezone(zone).strftime("%a %d %b %Y")


def format_short_date(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Fri 27 Mar, with the year if it is another one."""
    local = moment.astimezone(zone)
    return local.strftime("%a %d %b" if local.year == now.astimezone(zone).year else "%a %d %b %Y")


def format_full_time(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Fri 27 Mar 09:00:00 CET, with the year if it is another one."""
    return f"{format_short_date(moment, now, zone)} {format_clock(moment, zone, seconds=True)}"


def format_clock(moment: datetime, zone: ZoneInfo, *, seconds: bool = False) -> str:
    """09:00 CET"""
    return moment.astimezone(zone).strftime("%H:%M:%S %Z" if seconds else "%H:%M %Z")


def format_utc_clock(moment: datetime, zone: ZoneInfo, *, seconds: bool = False) -> str:
    """08:00 UTC, with the weekday where it is another day there."""
    there = moment.astimezone(UTC)
    weekday = "" if there.date() == moment.astimezone(zone).date() else f"{there:%a} "
    return weekday + format_clock(moment, ZoneInfo("UTC"), seconds=seconds)


def format_time_left(moment: datetime, now: datetime) -> str:
    """in 18h 56m, counted between the seconds that the clock shows: 12:00:48 is 48s from 12:00:00, not 49."""
    if abs(moment - now) < timedelta(seconds=1):
        return "now"
    moment, now = moment.replace(microsecond=0), now.replace(microsecond=0)
    return f"in {humanize(moment - now)}" if moment > now else f"{humanize(now - moment)} ago"


def has_seconds(moments: list[datetime]) -> bool:
    """Whether any of them needs its seconds to be told."""
    return any(moment.second or moment.microsecond for moment in moments)


def _parse_time_text(written: str, now: datetime, zone: ZoneInfo) -> datetime:
    if _DATE_PATTERN.fullmatch(written):
        return _parse_date(written, zone)
    if _RELATIVE_PATTERN.fullmatch(written):
        sign = -1 if written.startswith("-") else 1
        return now + sign * parse_duration(written.lstrip("+-"))
    return parse_timestamp(written)


def _parse_date(written: str, zone: ZoneInfo) -> datetime:
    try:
        return datetime.fromisoformat(written).replace(tzinfo=zone).astimezone(UTC)
    except ValueError as error:
        hint = 'Write for example "2026-03-28".'
        raise TimeParseError(f'"{written}" is not a day of the calendar.', written, hint=hint) from error


def _out_of_range_error(written: str) -> TimeParseError:
    hint = f"Times from {FIRST_YEAR} to {LAST_YEAR} can be shown."
    return TimeParseError(f'"{written}" is too far away.', written, hint=hint)
