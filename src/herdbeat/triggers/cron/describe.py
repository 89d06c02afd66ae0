"""An expression as a sentence: "at 09:00, Monday to Friday", "every 15 minutes"."""

from herdbeat.triggers.cron.describe_days import describe_days
from herdbeat.triggers.cron.pattern import CronPattern
from herdbeat.triggers.cron.phrases import (
    cycle_step,
    format_ordinal,
    format_range,
    is_consecutive,
    join_words,
    uniform_step,
)

_MAX_LISTED_TIMES = 6
"""More times than this are not spelled out one by one."""


def describe_pattern(pattern: CronPattern) -> str:
    """Short enough for one line of a list; where the short form would lie, it is longer."""
    times = _describe_times(pattern)
    days = describe_days(pattern.days)
    if not days:
        return f"{times} every day" if _has_listable_times(pattern) else times
    return times + days


def _describe_times(pattern: CronPattern) -> str:
    seconds = _nominal_seconds(pattern)
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
    """Of which hours; nothing for all of them."""
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
    return f"hour{plural} {format_range([str(hour) for hour in hours], consecutive=is_consecutive(hours))}"


def _has_listable_times(pattern: CronPattern) -> bool:
    """True if the times of a day are few enough to be named, and not simply every hour."""
    regular = cycle_step(pattern.hours, 24) is not None and len(pattern.hours) > 2
    return len(pattern.hours) * len(pattern.minutes) <= _MAX_LISTED_TIMES and not regular


def _format_clock_times(pattern: CronPattern, second: int) -> list[str]:
    suffix = f":{second:02}" if second else ""
    return [f"{hour:02}:{minute:02}{suffix}" for hour in pattern.hours for minute in pattern.minutes]


def _nominal_seconds(pattern: CronPattern) -> tuple[int, ...]:
    return tuple(second + pattern.shift.seconds for second in pattern.seconds)


def _format_step(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"
