"""The days of an expression in words: ", Monday to Friday", " on the 1st of the month"."""

from cronsim import CronSim

from herdbeat.triggers.cron.days import Days
from herdbeat.triggers.cron.phrases import even_step, is_run, listed, ordinal, span

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NTH = ("first", "second", "third", "fourth", "fifth")


def days_said(days: Days) -> str:
    """What follows the times of day, with its joint; nothing if it is every day."""
    months = "" if len(days.months) == 12 else _months(days)
    of = f" of {months or 'the month'}"
    day = "" if _is_every_day_of_month(days) else _days_of_month(days, of, months)
    weekday = "" if _is_whole_week(days) else _days_of_week(days, of)
    if day and weekday:
        return f" on {day} if it is {weekday}" if days.day_and else f" on {day} or on {_in(months, weekday, of)}"
    if day:
        return f" on {day}"
    if weekday:
        return f", {_in(months, weekday, of)}"
    return f" every day in {months}" if months else ""


def _in(months: str, weekday: str, of: str) -> str:
    """The weekday with its months, unless it has named them already."""
    return f"{weekday} in {months}" if months and of not in weekday else weekday


def _months(days: Days) -> str:
    names = [_MONTHS[month - 1] for month in sorted(days.months)]
    return span(names, unbroken=is_run(sorted(days.months)))


def _is_every_day_of_month(days: Days) -> bool:
    return set(range(1, 32)) <= days.days


def _is_whole_week(days: Days) -> bool:
    return len({day % 7 for day in days.weekdays if isinstance(day, int)}) == 7


def _days_of_month(days: Days, of: str, months: str) -> str:
    numbers = sorted(day for day in days.days if day > 0)
    if len(numbers) == 1 and len(days.months) == 1 and days.days == set(numbers):
        return f"{numbers[0]} {months}"
    said = [_numbers(numbers)] if numbers else []
    said += [f"the weekday nearest the {ordinal(day)}" for day in sorted(days.nearest)]
    said += ["the last weekday"] if CronSim.LAST_WEEKDAY in days.days else []
    said += ["the last day"] if CronSim.LAST in days.days else []
    return listed(said) + of


def _numbers(numbers: list[int]) -> str:
    names = [f"the {ordinal(number)}" for number in numbers]
    step = even_step(numbers)
    if step and step > 1:
        return f"every {ordinal(step)} day from {names[0]} to {names[-1]}"
    return span(names, unbroken=is_run(numbers))


def _days_of_week(days: Days, of: str) -> str:
    # Monday is 0 here: people's weeks, unlike cron's, end on Sunday, and so "Saturday and Sunday" is a run.
    plain = {(day - 1) % 7 for day in days.weekdays if isinstance(day, int)}
    said = [_names(plain)] if plain else []
    for word, nth in (*zip(_NTH, range(1, 6), strict=True), ("last", CronSim.LAST)):
        if chosen := {(item[0] - 1) % 7 for item in days.weekdays if isinstance(item, tuple) and item[1] == nth}:
            said.append(f"the {word} {_names(chosen)}")
    only_plain = all(isinstance(item, int) for item in days.weekdays)
    return listed(said) if only_plain else listed(said) + of


def _names(weekdays: set[int]) -> str:
    return span([_WEEKDAYS[day] for day in sorted(weekdays)], unbroken=is_run(sorted(weekdays)))
