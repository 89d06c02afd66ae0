"""Descriptions for people: an expression as a phrase, and what a clock change did to an instant.

A phrase is "at 09:00, Monday to Friday" or "every 15 minutes": the times of day, then the days.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from cronsim import CronSim

from herdbeat.triggers.cron.day_match import DayMatcher
from herdbeat.triggers.cron.dst import OffsetTransition, first_transition, last_transition, utc_offset
from herdbeat.triggers.cron.instants import find_transition
from herdbeat.triggers.cron.pattern import CronPattern

_MAX_LISTED_TIMES = 6
"""More times of day than this are described by a rule instead of a list."""

_WEEKDAY_LABELS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_LABELS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NTH_LABELS = ("first", "second", "third", "fourth", "fifth")


def describe_pattern(pattern: CronPattern) -> str:
    """Return a phrase for one line of a list. It is longer only where a short one would be wrong."""
    times = _describe_times(pattern)
    days = describe_days(pattern.days)
    return f"{times} every day" if not days and _has_listable_times(pattern) else times + days


def _describe_times(pattern: CronPattern) -> str:
    seconds = tuple(second + pattern.shift.seconds for second in pattern.seconds)
    if len(seconds) > 1:
        return _describe_seconds(pattern, seconds)
    if _has_listable_times(pattern):
        return f"at {join_words(_format_clock_times(pattern, seconds[0]))}"
    suffix = f", at second {seconds[0]}" if seconds[0] else ""
    return _describe_minutes_and_hours(pattern) + suffix


def _describe_seconds(pattern: CronPattern, seconds: tuple[int, ...]) -> str:
    step = cycle_step(seconds, 60)
    phrases = _format_step(step, "second") if step else f"at seconds {join_words(map(str, seconds))}"
    if len(pattern.minutes) == 60 and len(pattern.hours) == 24:
        return phrases if step else f"{phrases} of every minute"
    if _has_listable_times(pattern):
        return f"{phrases} of {join_words(_format_clock_times(pattern, 0))}"
    return f"{phrases}, {_describe_minutes_and_hours(pattern)}"


def _describe_minutes_and_hours(pattern: CronPattern) -> str:
    minutes, hours = pattern.minutes, pattern.hours
    if step := cycle_step(minutes, 60):
        return _format_step(step, "minute") + _describe_hour_range(hours, minutes[-1])
    if (hour_step := cycle_step(hours, 24)) and len(minutes) <= _MAX_LISTED_TIMES:
        return _format_step(hour_step, "hour") + ("" if minutes == (0,) else f" {_describe_minutes(minutes)}")
    if len(minutes) == 1 and is_consecutive(hours):
        return f"every hour from {hours[0]:02}:{minutes[0]:02} to {hours[-1]:02}:{minutes[0]:02}"
    return f"{_describe_minutes(minutes)} of {_describe_hours(hours)}"


def _describe_minutes(minutes: tuple[int, ...]) -> str:
    step = uniform_step(minutes)
    if step and len(minutes) > _MAX_LISTED_TIMES:
        return f"{_format_step(step, 'minute')} from :{minutes[0]:02} to :{minutes[-1]:02}"
    return f"at {join_words(f':{minute:02}' for minute in minutes)}"


def _describe_hour_range(hours: tuple[int, ...], last_minute: int) -> str:
    """Return the hours as a suffix; empty for all of them."""
    if len(hours) == 24:
        return ""
    if is_consecutive(hours) or len(hours) == 1:
        return f" from {hours[0]:02}:00 to {hours[-1]:02}:{last_minute:02}"
    return f" of {_describe_hours(hours)}"


def _describe_hours(hours: tuple[int, ...]) -> str:
    step = uniform_step(hours)
    if len(hours) == 24:
        return "every hour"
    if step and step > 1:
        return f"every {format_ordinal(step)} hour from {hours[0]} to {hours[-1]}"
    plural = "s" if len(hours) > 1 else ""
    return f"hour{plural} {format_range([str(hour) for hour in hours], hours)}"


def _has_listable_times(pattern: CronPattern) -> bool:
    """True if the times of a day are few enough to list, and do not follow a regular step of hours."""
    regular = cycle_step(pattern.hours, 24) is not None and len(pattern.hours) > 2
    return len(pattern.hours) * len(pattern.minutes) <= _MAX_LISTED_TIMES and not regular


def _format_clock_times(pattern: CronPattern, second: int) -> list[str]:
    suffix = f":{second:02}" if second else ""
    return [f"{hour:02}:{minute:02}{suffix}" for hour in pattern.hours for minute in pattern.minutes]


def _format_step(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def describe_days(days: DayMatcher) -> str:
    """Return the days as a suffix for the times of day, ", Monday to Friday"; empty for every day."""
    months = "" if len(days.months) == 12 else _describe_months(days)
    month_suffix = f" of {months or 'the month'}"
    is_whole_week = len({day % 7 for day in days.weekdays if isinstance(day, int)}) == 7
    day = "" if set(range(1, 32)) <= days.days else _describe_days_of_month(days, month_suffix, months)
    weekday = "" if is_whole_week else _describe_days_of_week(days, month_suffix)
    if day and weekday and days.day_and:
        return f" on {day} if it is {weekday}"
    if day:
        return f" on {day}" + (f" or on {_append_months(months, weekday, month_suffix)}" if weekday else "")
    if weekday:
        return f", {_append_months(months, weekday, month_suffix)}"
    return f" every day in {months}" if months else ""


def _append_months(months: str, weekday: str, month_suffix: str) -> str:
    """Return the weekday with its months, unless it names them already."""
    return f"{weekday} in {months}" if months and month_suffix not in weekday else weekday


def _describe_months(days: DayMatcher) -> str:
    months = sorted(days.months)
    return format_range([_MONTH_LABELS[month - 1] for month in months], months)


def _describe_days_of_month(days: DayMatcher, month_suffix: str, months: str) -> str:
    numbers = sorted(day for day in days.days if day > 0)
    if len(numbers) == 1 and len(days.months) == 1 and days.days == set(numbers):
        return f"{numbers[0]} {months}"
    phrases = [_describe_day_numbers(numbers)] if numbers else []
    phrases += [f"the weekday nearest the {format_ordinal(day)}" for day in sorted(days.nearest_days)]
    phrases += ["the last weekday"] if CronSim.LAST_WEEKDAY in days.days else []
    phrases += ["the last day"] if CronSim.LAST in days.days else []
    return join_words(phrases) + month_suffix


def _describe_day_numbers(numbers: list[int]) -> str:
    names = [f"the {format_ordinal(number)}" for number in numbers]
    step = uniform_step(numbers)
    if step and step > 1:
        return f"every {format_ordinal(step)} day from {names[0]} to {names[-1]}"
    return format_range(names, numbers)


def _describe_days_of_week(days: DayMatcher, month_suffix: str) -> str:
    # Monday is 0 here, unlike in cron, so that Saturday and Sunday are consecutive.
    plain = {(day - 1) % 7 for day in days.weekdays if isinstance(day, int)}
    phrases = [_describe_weekdays(plain)] if plain else []
    for word, nth in (*zip(_NTH_LABELS, range(1, 6), strict=True), ("last", CronSim.LAST)):
        if chosen := {(item[0] - 1) % 7 for item in days.weekdays if isinstance(item, tuple) and item[1] == nth}:
            phrases.append(f"the {word} {_describe_weekdays(chosen)}")
    only_plain = all(isinstance(item, int) for item in days.weekdays)
    return join_words(phrases) + ("" if only_plain else month_suffix)


def _describe_weekdays(weekdays: set[int]) -> str:
    numbers = sorted(weekdays)
    return format_range([_WEEKDAY_LABELS[day] for day in numbers], numbers)


def join_words(words: Iterable[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    *front, last = words
    return f"{', '.join(front)} and {last}" if front else last


def format_ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 11th, 22nd."""
    suffix = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def cycle_step(values: Sequence[int], cycle: int) -> int | None:
    """Return the step of values that divide the cycle evenly from 0 on, (0, 15, 30, 45) of 60 -> 15; else None."""
    if len(values) < 2 or cycle % len(values):
        return None
    step = cycle // len(values)
    return step if tuple(values) == tuple(range(0, cycle, step)) else None


def is_consecutive(values: Sequence[int]) -> bool:
    """True for three or more numbers without a gap."""
    return len(values) > 2 and values[-1] - values[0] == len(values) - 1


def uniform_step(values: Sequence[int]) -> int | None:
    """Return the step of four or more numbers at equal distances, from any start; else None."""
    if len(values) < 4:
        return None
    step = values[1] - values[0]
    return step if tuple(values) == tuple(range(values[0], values[-1] + 1, step)) else None


def format_range(names: Sequence[str], numbers: Sequence[int]) -> str:
    """Return "Monday to Friday" for names whose numbers are consecutive, else a list of all of them."""
    return f"{names[0]} to {names[-1]}" if is_consecutive(numbers) else join_words(names)


class DstNoteKind(StrEnum):
    MOVED = "moved"  # its wall time does not exist that night; it runs right after the gap
    REPEATED = "repeated"  # its wall time occurs twice that night
    CHANGED = "changed"  # the clocks changed since the previous instant


@dataclass(frozen=True, slots=True, kw_only=True)
class DstNote:
    """A remark about one instant. `change_at` is when the clocks change, `nominal` the wall time of the expression."""

    kind: DstNoteKind
    text: str
    change_at: datetime
    nominal: datetime | None = None


def find_dst_notes(
    pattern: CronPattern, zone: ZoneInfo, instant: datetime, previous: datetime | None
) -> tuple[DstNote, ...]:
    """Return the remarks about `instant`. Most instants have none."""
    note = _moved_note(pattern, zone, instant - pattern.shift) or _repeated_note(pattern, zone, instant)
    if note is None and previous is not None:
        note = _changed_note(zone, previous, instant)
    return (note,) if note else ()


def _moved_note(pattern: CronPattern, zone: ZoneInfo, instant: datetime) -> DstNote | None:
    transition = first_transition(zone, instant - timedelta(seconds=1), instant)
    if not pattern.is_fixed or transition is None or not transition.is_forward:
        return None
    nominal = pattern.first(transition.wall_before)
    if nominal >= transition.wall_after:
        return None
    text = f"{nominal:%H:%M} does not exist that night; runs at {transition.wall_after:%H:%M}"
    return DstNote(kind=DstNoteKind.MOVED, text=text, change_at=transition.at, nominal=nominal)


def _repeated_note(pattern: CronPattern, zone: ZoneInfo, instant: datetime) -> DstNote | None:
    wall = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    if zone.utcoffset(wall) == zone.utcoffset(wall.replace(fold=1)):
        return None
    times = "the first time" if pattern.is_fixed else "both times"
    text = f"{wall:%H:%M} happens twice that night; runs {times}"
    return DstNote(kind=DstNoteKind.REPEATED, text=text, change_at=find_transition(zone, wall).at, nominal=wall)


def _changed_note(zone: ZoneInfo, previous: datetime, instant: datetime) -> DstNote | None:
    if utc_offset(zone, previous) == utc_offset(zone, instant):
        return None
    transition = last_transition(zone, previous, instant)
    assert transition is not None
    direction = "forward" if transition.is_forward else "back"
    text = f"clocks went {direction} on {_transition_date(transition)}"
    return DstNote(kind=DstNoteKind.CHANGED, text=text, change_at=transition.at)


def _transition_date(transition: OffsetTransition) -> str:
    """Return the local date of a transition. One at midnight belongs to the night that it ends."""
    day = transition.wall_after if transition.is_forward else transition.wall_before - timedelta(seconds=1)
    return f"{day.day} {day:%b}"
