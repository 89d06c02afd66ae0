"""An expression as a sentence: "at 09:00, Monday to Friday", "every 15 minutes"."""

from herdbeat.triggers.cron.describe_days import days_said
from herdbeat.triggers.cron.pattern import Pattern
from herdbeat.triggers.cron.phrases import even_step, is_run, listed, ordinal, span, step_of

_MANY = 6
"""More times than this are not spelled out one by one."""


def describe(pattern: Pattern) -> str:
    """Short enough for one line of a list; where the short form would lie, it is longer."""
    times = _times(pattern)
    days = days_said(pattern.days)
    if not days:
        return f"{times} every day" if _is_clock_times(pattern) else times
    return times + days


def _times(pattern: Pattern) -> str:
    seconds = _seconds(pattern)
    if len(seconds) > 1:
        return _with_seconds(pattern, seconds)
    if _is_clock_times(pattern):
        return f"at {listed(_clock_times(pattern, seconds[0]))}"
    suffix = f", at second {seconds[0]}" if seconds[0] else ""
    return _minutes_and_hours(pattern) + suffix


def _with_seconds(pattern: Pattern, seconds: tuple[int, ...]) -> str:
    step = step_of(seconds, 60)
    said = _every(step, "second") if step else f"at seconds {listed(map(str, seconds))}"
    if len(pattern.minutes) == 60 and len(pattern.hours) == 24:
        return said if step else f"{said} of every minute"
    if _is_clock_times(pattern):
        return f"{said} of {listed(_clock_times(pattern, 0))}"
    return f"{said}, {_minutes_and_hours(pattern)}"


def _minutes_and_hours(pattern: Pattern) -> str:
    minutes, hours = pattern.minutes, pattern.hours
    if step := step_of(minutes, 60):
        return _every(step, "minute") + _from_to(hours, minutes[-1])
    if (hour_step := step_of(hours, 24)) and len(minutes) <= _MANY:
        return _every(hour_step, "hour") + ("" if minutes == (0,) else f" {_past(minutes)}")
    if len(minutes) == 1 and is_run(hours):
        return f"every hour from {hours[0]:02}:{minutes[0]:02} to {hours[-1]:02}:{minutes[0]:02}"
    return f"{_past(minutes)} of {_hours(hours)}"


def _past(minutes: tuple[int, ...]) -> str:
    step = even_step(minutes)
    if step and len(minutes) > _MANY:
        return f"{_every(step, 'minute')} from :{minutes[0]:02} to :{minutes[-1]:02}"
    return f"at {listed(f':{minute:02}' for minute in minutes)}"


def _from_to(hours: tuple[int, ...], last_minute: int) -> str:
    """Of which hours; nothing for all of them."""
    if len(hours) == 24:
        return ""
    if is_run(hours) or len(hours) == 1:
        return f" from {hours[0]:02}:00 to {hours[-1]:02}:{last_minute:02}"
    return f" of {_hours(hours)}"


def _hours(hours: tuple[int, ...]) -> str:
    step = even_step(hours)
    if len(hours) == 24:
        return "every hour"
    if step and step > 1:
        return f"every {ordinal(step)} hour from {hours[0]} to {hours[-1]}"
    plural = "s" if len(hours) > 1 else ""
    return f"hour{plural} {span([str(hour) for hour in hours], unbroken=is_run(hours))}"


def _is_clock_times(pattern: Pattern) -> bool:
    """True if the times of a day are few enough to be named, and not simply every hour."""
    regular = step_of(pattern.hours, 24) is not None and len(pattern.hours) > 2
    return len(pattern.hours) * len(pattern.minutes) <= _MANY and not regular


def _clock_times(pattern: Pattern, second: int) -> list[str]:
    ending = f":{second:02}" if second else ""
    return [f"{hour:02}:{minute:02}{ending}" for hour in pattern.hours for minute in pattern.minutes]


def _seconds(pattern: Pattern) -> tuple[int, ...]:
    return tuple(second + pattern.shift.seconds for second in pattern.seconds)


def _every(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"
