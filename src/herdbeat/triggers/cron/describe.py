"""An expression as a sentence: "at 09:00, Monday to Friday", "every 15 minutes"."""

from collections.abc import Iterable, Sequence

from cronsim import CronSim

from herdbeat.triggers.cron.day_match import DayMatcher
from herdbeat.triggers.cron.pattern import CronPattern

# Small turns of phrase for lists and series of numbers.


def join_words(words: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *front, last = words
    return f"{', '.join(front)} and {last}" if front else last


def format_ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 11th, 22nd."""
    suffix = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def cycle_step(values: Sequence[int], cycle: int) -> int | None:
    """The step of a series that goes round evenly, from 0 on: (0, 15, 30, 45) of 60 -> 15; else None."""
    if len(values) < 2 or cycle % len(values):
        return None
    step = cycle // len(values)
    return step if tuple(values) == tuple(range(0, cycle, step)) else None


def is_consecutive(values: Sequence[int]) -> bool:
    """True for three or more numbers without a hole."""
    return len(values) > 2 and values[-1] - values[0] == len(values) - 1


def uniform_step(values: Sequence[int]) -> int | None:
    """The step of four or more numbers at equal distances, wherever they begin; None if they have none."""
    if len(values) < 4:
        return None
    step = values[1] - values[0]
    return step if tuple(values) == tuple(range(values[0], values[-1] + 1, step)) else None


def format_range(names: Sequence[str], *, consecutive: bool) -> str:
    """ "Monday to Friday" for a run of names, else all of them."""
    return f"{names[0]} to {names[-1]}" if consecutive else join_words(names)


# The days of an expression in words: ", Monday to Friday", " on the 1st of the month".


_WEEKDAY_LABELS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_LABELS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NTH_LABELS = ("first", "second", "third", "fourth", "fifth")


def describe_days(days: DayMatcher) -> str:
    """What follows the times of day, with its joint; nothing if it is every day."""
    months = "" if len(days.months) == 12 else _describe_months(days)
    month_suffix = f" of {months or 'the month'}"
    day = "" if _is_every_day_of_month(days) else _describe_days_of_month(days, month_suffix, months)
    weekday = "" if _is_whole_week(days) else _describe_days_of_week(days, month_suffix)
    if day and weekday:
        return (
            f" on {day} if it is {weekday}"
            if days.day_and
            else f" on {day} or on {_append_months(months, weekday, month_suffix)}"
        )
    if day:
        return f" on {day}"
    if weekday:
        return f", {_append_months(months, weekday, month_suffix)}"
    return f" every day in {months}" if months else ""


def _append_months(months: str, weekday: str, month_suffix: str) -> str:
    """The weekday with its months, unless it has named them already."""
    return f"{weekday} in {months}" if months and month_suffix not in weekday else weekday


def _describe_months(days: DayMatcher) -> str:
    names = [_MONTH_LABELS[month - 1] for month in sorted(days.months)]
    return format_range(names, consecutive=is_consecutive(sorted(days.months)))


def _is_every_day_of_month(days: DayMatcher) -> bool:
    return set(range(1, 32)) <= days.days


def _is_whole_week(days: DayMatcher) -> bool:
    return len({day % 7 for day in days.weekdays if isinstance(day, int)}) == 7


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
    return format_range(names, consecutive=is_consecutive(numbers))


def _describe_days_of_week(days: DayMatcher, month_suffix: str) -> str:
    # Monday is 0 here: people's weeks, unlike cron's, end on Sunday, and so "Saturday and Sunday" is a run.
    plain = {(day - 1) % 7 for day in days.weekdays if isinstance(day, int)}
    phrases = [_describe_weekdays(plain)] if plain else []
    for word, nth in (*zip(_NTH_LABELS, range(1, 6), strict=True), ("last", CronSim.LAST)):
        if chosen := {(item[0] - 1) % 7 for item in days.weekdays if isinstance(item, tuple) and item[1] == nth}:
            phrases.append(f"the {word} {_describe_weekdays(chosen)}")
    only_plain = all(isinstance(item, int) for item in days.weekdays)
    return join_words(phrases) if only_plain else join_words(phrases) + month_suffix


def _describe_weekdays(weekdays: set[int]) -> str:
    return format_range(
        [_WEEKDAY_LABELS[day] for day in sorted(weekdays)], consecutive=is_consecutive(sorted(weekdays))
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
