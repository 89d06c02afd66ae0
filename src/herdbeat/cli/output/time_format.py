"""Times for people: dates, clocks, and how long it is until a moment."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.durations import humanize


def format_date(moment: datetime, zone: ZoneInfo) -> str:
    """Return for example `Fri 27 Mar 2026`."""
    return moment.astimezone(zone).strftime("%a %d %b %Y")


def format_short_date(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Return for example `Fri 27 Mar`, with the year if it is not this one."""
    local = moment.astimezone(zone)
    return local.strftime("%a %d %b" if local.year == now.astimezone(zone).year else "%a %d %b %Y")


def format_full_time(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Return for example `Fri 27 Mar 09:00:00 CET`, with the year if it is not this one."""
    return f"{format_short_date(moment, now, zone)} {format_clock(moment, zone, seconds=True)}"


def format_clock(moment: datetime, zone: ZoneInfo, *, seconds: bool = False) -> str:
    """Return for example `09:00 CET`."""
    return moment.astimezone(zone).strftime("%H:%M:%S %Z" if seconds else "%H:%M %Z")


def format_utc_clock(moment: datetime, zone: ZoneInfo, *, seconds: bool = False) -> str:
    """Return for example `08:00 UTC`, with the weekday if it is another day in UTC."""
    there = moment.astimezone(UTC)
    weekday = "" if there.date() == moment.astimezone(zone).date() else f"{there:%a} "
    return weekday + format_clock(moment, ZoneInfo("UTC"), seconds=seconds)


def format_time_left(moment: datetime, now: datetime) -> str:
    """Return for example `in 18h 56m`, counted in whole seconds of the clock: 12:00:48 is 48s from 12:00:00."""
    if abs(moment - now) < timedelta(seconds=1):
        return "now"
    moment, now = moment.replace(microsecond=0), now.replace(microsecond=0)
    return f"in {humanize(moment - now)}" if moment > now else f"{humanize(now - moment)} ago"


def has_seconds(moments: list[datetime]) -> bool:
    """Return whether any of the times needs its seconds shown."""
    return any(moment.second or moment.microsecond for moment in moments)
