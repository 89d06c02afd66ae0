"""Times as people read them, and as they write them on a command line."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.durations import parse_duration, spoken_duration
from herdbeat.errors import TimeParseError, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.moments import parse_moment, parse_zone

FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Far from both ends of the calendar, so that nothing near a time can fall off it."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RELATIVE = re.compile(r"[+-]?[0-9]+[.,]?[0-9]*\s*[a-z]{0,2}", re.IGNORECASE)


def read_time(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Read "2026-03-28" (midnight in the zone), RFC 3339, or a duration from now: "2h", "-1d".

    Raises TimeParseError or IntervalParseError, by what the text looks like.
    """
    written = text.strip()
    try:
        moment = _read(written, now, zone)
    except OverflowError as error:
        raise _too_far(written) from error
    return within_the_calendar(moment, written)


def within_the_calendar(moment: datetime, written: str) -> datetime:
    """The moment itself. Raises TimeParseError for one that is too far away."""
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise _too_far(written)
    return moment


def wanted_zone(given: Given) -> ZoneInfo | None:
    """The zone that --tz or --utc asks for; None if neither does."""
    name = given.value(flags.ZONE)
    if given.has(flags.UTC):
        if name is not None:
            raise UsageError("--utc and --tz exclude each other.", hint="Keep the one you mean.")
        return ZoneInfo("UTC")
    return None if name is None else parse_zone(name)


def day(moment: datetime, zone: ZoneInfo) -> str:
    """Fri 27 Mar 2026"""
    return moment.astimezone(zone).strftime("%a %d %b %Y")


def short_day(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Fri 27 Mar, with the year if it is another one."""
    local = moment.astimezone(zone)
    return local.strftime("%a %d %b" if local.year == now.astimezone(zone).year else "%a %d %b %Y")


def full_moment(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Fri 27 Mar 09:00:00 CET, with the year if it is another one."""
    return f"{short_day(moment, now, zone)} {clock(moment, zone, seconds=True)}"


def clock(moment: datetime, zone: ZoneInfo, *, seconds: bool = False) -> str:
    """09:00 CET"""
    return moment.astimezone(zone).strftime("%H:%M:%S %Z" if seconds else "%H:%M %Z")


def utc_clock(moment: datetime, zone: ZoneInfo, *, seconds: bool = False) -> str:
    """08:00 UTC, with the weekday where it is another day there."""
    there = moment.astimezone(UTC)
    weekday = "" if there.date() == moment.astimezone(zone).date() else f"{there:%a} "
    return weekday + clock(moment, ZoneInfo("UTC"), seconds=seconds)


def left(moment: datetime, now: datetime) -> str:
    """in 18h 56m, counted between the seconds that the clock shows: 12:00:48 is 48s from 12:00:00, not 49."""
    if abs(moment - now) < timedelta(seconds=1):
        return "now"
    moment, now = moment.replace(microsecond=0), now.replace(microsecond=0)
    return f"in {spoken_duration(moment - now)}" if moment > now else f"{spoken_duration(now - moment)} ago"


def has_seconds(moments: list[datetime]) -> bool:
    """Whether any of them needs its seconds to be told."""
    return any(moment.second or moment.microsecond for moment in moments)


def _read(written: str, now: datetime, zone: ZoneInfo) -> datetime:
    if _DAY.fullmatch(written):
        return _midnight(written, zone)
    if _RELATIVE.fullmatch(written):
        sign = -1 if written.startswith("-") else 1
        return now + sign * parse_duration(written.lstrip("+-"))
    return parse_moment(written)


def _midnight(written: str, zone: ZoneInfo) -> datetime:
    try:
        return datetime.fromisoformat(written).replace(tzinfo=zone).astimezone(UTC)
    except ValueError as error:
        hint = 'Write for example "2026-03-28".'
        raise TimeParseError(f'"{written}" is not a day of the calendar.', written, hint=hint) from error


def _too_far(written: str) -> TimeParseError:
    hint = f"Times from {FIRST_YEAR} to {LAST_YEAR} can be shown."
    return TimeParseError(f'"{written}" is too far away.', written, hint=hint)
