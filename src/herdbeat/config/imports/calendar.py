"""systemd's calendar expressions and time spans, as cron expressions and durations.

An expression is `Mon..Fri *-*-* 02..04:00/15:00 Europe/Berlin`. Both day fields must match, which cron writes as `+`.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.errors import HerdbeatError, TimezoneError
from herdbeat.timestamps import format_timestamp, parse_zone

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "anually": "*-01-01 00:00:00",
}
_FULL_WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_WEEKDAY_WORD_PATTERN = re.compile(r"[A-Za-z][A-Za-z.,-]*")
_VALUES_PATTERN = re.compile(r"(?P<first>\d+)(?:\.\.(?P<last>\d+))?(?:/(?P<step>\d+))?")
_YEARS = range(1970, 2200)
_MAX_CRON_CHARS = 480

_SPAN_PART_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµμ]*)")
_SPAN_UNITS = {
    **dict.fromkeys(("usec", "us", "µs", "μs"), 1e-6),
    **dict.fromkeys(("msec", "ms"), 1e-3),
    **dict.fromkeys(("", "seconds", "second", "sec", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "min", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hr", "h"), 3_600.0),
    **dict.fromkeys(("days", "day", "d"), 86_400.0),
    **dict.fromkeys(("weeks", "week", "w"), 604_800.0),
    **dict.fromkeys(("months", "month", "M"), 2_629_800.0),
    **dict.fromkeys(("years", "year", "y"), 31_557_600.0),
}


class CannotCarry(HerdbeatError):
    """An expression that has no equivalent here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarSchedule:
    """One expression in our keys: `cron` or `at`, and its bounds."""

    cron: str = ""
    at: str = ""
    zone: str = ""
    starts_at: str = ""
    ends_at: str = ""

    def to_keys(self) -> dict[str, str]:
        keys = {"cron": self.cron, "at": self.at, "timezone": self.zone}
        keys |= {"starts_at": self.starts_at, "ends_at": self.ends_at}
        return {name: value for name, value in keys.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Components:
    """The allowed values of each component; `from_end` days are counted from the end of the month."""

    weekdays: frozenset[int]
    years: frozenset[int] | None
    months: frozenset[int]
    days: frozenset[int]
    from_end: str
    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int]
    zone: str


def parse_calendar(text: str, default_zone: str) -> CalendarSchedule:
    """Return an OnCalendar= expression in our keys. Raises CannotCarry."""
    components = _split(text)
    zone = ZoneInfo(components.zone or default_zone)
    if components.years is not None and (instant := _find_single(components, zone)) is not None:
        return CalendarSchedule(at=format_timestamp(instant))
    starts_at, ends_at = _bound_years(text, components.years, zone)
    cron = _format_cron(text, components)
    return CalendarSchedule(cron=cron, zone=components.zone, starts_at=starts_at, ends_at=ends_at)


def parse_span(text: str) -> timedelta | None:
    """Return a time span such as "1h 30min"; None for infinity. Raises CannotCarry."""
    written = text.strip()
    if written == "infinity":
        return None
    parts = list(_SPAN_PART_PATTERN.finditer(written))
    if not parts or "".join(part[0] for part in parts) != written:
        raise CannotCarry(f'"{text}" is not a time span.', hint="Write for example 15min.")
    seconds = 0.0
    for part in parts:
        unit = part[2] if part[2] in _SPAN_UNITS else part[2].lower()
        if unit not in _SPAN_UNITS:
            raise CannotCarry(f'"{text}": {part[2]} is not a unit of time.', hint="Write for example 15min.")
        seconds += float(part[1]) * _SPAN_UNITS[unit]
    return timedelta(seconds=seconds)


def _split(text: str) -> _Components:
    written = text.strip()
    words = _SHORTHANDS.get(written.lower(), written).split()
    if not words:
        raise _invalid(text)
    head, *rest = words
    if head.lower() in _SHORTHANDS and len(rest) == 1:
        words = [*_SHORTHANDS[head.lower()].split(), *rest]  # "daily Europe/Berlin"
    weekdays = frozenset(range(7))
    if words and _is_weekdays(words[0]):
        weekdays = _parse_weekdays(text, words.pop(0))
    zone = ""
    if words and re.match(r"[A-Za-z]", words[-1]):
        zone = _parse_zone_word(text, words.pop())
    date, time = _split_date_and_time(text, words)
    years, months, days, from_end = _parse_date(text, date)
    hours, minutes, seconds = _parse_time(text, time)
    return _Components(
        weekdays=weekdays,
        years=years,
        months=months,
        days=days,
        from_end=from_end,
        hours=hours,
        minutes=minutes,
        seconds=seconds,
        zone=zone,
    )


def _is_weekdays(word: str) -> bool:
    first = re.split(r"[.,-]", word)[0].upper()
    return _WEEKDAY_WORD_PATTERN.fullmatch(word) is not None and (first in WEEKDAYS or first in _FULL_WEEKDAYS)


def _parse_weekdays(text: str, word: str) -> frozenset[int]:
    days: set[int] = set()
    for item in filter(None, word.rstrip(",").split(",")):
        first, *last = re.split(r"\.\.|-", item)
        low = _parse_weekday(text, first)
        high = _parse_weekday(text, last[0]) if last else low
        if len(last) > 1 or high < low:
            raise _invalid(text)
        days.update(range(low, high + 1))
    return frozenset(days)


def _parse_weekday(text: str, name: str) -> int:
    upper = name.upper()
    if upper in WEEKDAYS:
        return WEEKDAYS.index(upper)
    if upper in _FULL_WEEKDAYS:
        return _FULL_WEEKDAYS.index(upper)
    raise _invalid(text)


def _parse_zone_word(text: str, word: str) -> str:
    try:
        return parse_zone(word).key
    except TimezoneError as error:
        raise CannotCarry(f'"{text}": {error.message}', hint=error.hint) from error


def _split_date_and_time(text: str, words: list[str]) -> tuple[str, str]:
    if not words:
        return "*-*-*", "00:00:00"
    if len(words) == 2:
        return words[0], words[1]
    if len(words) > 2 or words[0].startswith("@"):
        raise _invalid(text)
    return ("*-*-*", words[0]) if ":" in words[0] else (words[0], "00:00:00")


def _parse_date(text: str, date: str) -> tuple[frozenset[int] | None, frozenset[int], frozenset[int], str]:
    """Return years (None for all), months, days, and what is written behind a ~."""
    front, tilde, from_end = date.partition("~")
    parts = front.split("-")
    if len(parts) == 1 + (not tilde):
        parts.insert(0, "*")  # month and day, without a year
    if len(parts) != 2 + (not tilde):
        raise _invalid(text)
    years = None if parts[0] == "*" else _parse_values(text, parts[0], _YEARS.start, _YEARS.stop - 1)
    months = _parse_values(text, parts[1], 1, 12)
    days = frozenset(range(1, 32)) if tilde else _parse_values(text, parts[2], 1, 31)
    return years, months, days, from_end


def _parse_time(text: str, time: str) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    parts = time.split(":")
    if len(parts) not in (2, 3):
        raise _invalid(text)
    if "." in re.sub(r"\.\.", "", parts[-1]) and not re.fullmatch(r"\d+\.0+", parts[-1]):
        raise CannotCarry(f'"{text}" has fractions of a second.', hint="Use whole seconds.")
    seconds = re.sub(r"\.0+$", "", parts[2]) if len(parts) == 3 else "00"
    return (
        _parse_values(text, parts[0], 0, 23),
        _parse_values(text, parts[1], 0, 59),
        _parse_values(text, seconds, 0, 59),
    )


def _parse_values(text: str, part: str, low: int, high: int) -> frozenset[int]:
    if part == "*":
        return frozenset(range(low, high + 1))
    values: set[int] = set()
    for item in part.split(","):
        match = _VALUES_PATTERN.fullmatch(item)
        if match is None:
            raise _invalid(text)
        first, step = int(match["first"]), int(match["step"] or 0)
        last = int(match["last"]) if match["last"] else (high if step else first)
        if not low <= first <= last <= high or match["step"] == "0":
            raise _invalid(text)
        values.update(range(first, last + 1, step or 1))
    return frozenset(values)


def _invalid(text: str) -> CannotCarry:
    return CannotCarry(
        f'"{text}" is not a calendar expression that herdbeat can read.', hint="Write cron: by hand, or every:."
    )


def _find_single(components: _Components, zone: ZoneInfo) -> datetime | None:
    """Return the only instant of an expression; None if it has several, or none that a clock shows."""
    date = (components.years or frozenset(), components.months, components.days)
    time = (components.hours, components.minutes, components.seconds)
    if any(len(values) != 1 for values in (*date, *time)) or components.from_end:
        return None
    year, month, day, hour, minute, second = (next(iter(values)) for values in (*date, *time))
    try:
        instant = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        return None
    return instant if instant.weekday() in components.weekdays else None


def _bound_years(text: str, years: frozenset[int] | None, zone: ZoneInfo) -> tuple[str, str]:
    """Return the begin and the end of years that follow each other."""
    if years is None:
        return "", ""
    low, high = min(years), max(years)
    if len(years) != high - low + 1:
        raise CannotCarry(f'"{text}" names years that do not follow each other.', hint="Write one schedule per year.")
    begin = datetime(low, 1, 1, tzinfo=zone)
    end = datetime(high + 1, 1, 1, tzinfo=zone) - timedelta(seconds=1)
    return format_timestamp(begin), "" if high == _YEARS.stop - 1 else format_timestamp(end)


def _format_cron(text: str, components: _Components) -> str:
    days = format_values(components.days, 1, 31)
    weekdays = format_weekdays(components.weekdays)
    if components.from_end:
        days, weekdays = _format_from_end(text, components, weekdays)
    if days != "*" and weekdays != "*":
        weekdays = f"+{weekdays}"
    fields = [format_values(components.minutes, 0, 59), format_values(components.hours, 0, 23)]
    if components.seconds != {0}:
        fields.insert(0, format_values(components.seconds, 0, 59))
    cron = " ".join([*fields, days, format_values(components.months, 1, 12), weekdays])
    if len(cron) > _MAX_CRON_CHARS:
        raise CannotCarry(f'"{text}" is too long for a cron expression.', hint="Write several schedules.")
    return cron


def _format_from_end(text: str, components: _Components, weekdays: str) -> tuple[str, str]:
    """Return both day fields of `~01`, the last day, and of `Mon *-*~07/1`, the last Monday."""
    if re.fullmatch(r"0*1", components.from_end):
        return "L", weekdays
    if re.fullmatch(r"0*7/1|0*7\.\.0*1|0*1\.\.0*7", components.from_end) and len(components.weekdays) < 7:
        return "*", ",".join(f"{WEEKDAYS[day]}#L" for day in sorted(components.weekdays))
    hint = "Only the last day (~01) and the last weekday (Mon *-*~07/1) have an equivalent: L and MON#L."
    raise CannotCarry(f'"{text}" counts days from the end of the month.', hint=hint)


def format_values(values: frozenset[int], low: int, high: int) -> str:
    """Return the values of one field of a cron expression, as short as it can be written."""
    ordered = sorted(values)
    if len(ordered) == high - low + 1:
        return "*"
    if len(ordered) == 1:
        return str(ordered[0])
    step = ordered[1] - ordered[0]
    is_even = ordered == list(range(ordered[0], ordered[-1] + 1, step))
    if is_even and step == 1:
        return f"{ordered[0]}-{ordered[-1]}"
    if is_even and ordered[0] == low == 0 and ordered[-1] + step > high and len(ordered) > 2:
        return f"*/{step}"
    return ",".join(map(str, ordered))


def format_weekdays(days: frozenset[int]) -> str:
    """Return the weekdays of a cron expression by their names; 0 is Monday."""
    ordered = sorted(days)
    if len(ordered) == 7:
        return "*"
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{WEEKDAYS[ordered[0]]}-{WEEKDAYS[ordered[-1]]}"
    return ",".join(WEEKDAYS[day] for day in ordered)
