"""The days of an expression in words: ", Monday to Friday", " on the 1st of the month"."""

from cronsim import CronSim

from herdbeat.triggers.cron.days import DayMatcher
from herdbeat.triggers.cron.phrases import format_ordinal, format_range, is_consecutive, join_words, uniform_step

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
