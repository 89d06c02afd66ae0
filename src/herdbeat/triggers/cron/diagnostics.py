"""Errors of invalid expressions: they name the field, the token and the allowed values, and suggest a correction.

The parser calls this module only after cronsim has rejected an expression, so its cost does not matter.
"""

import re
from difflib import get_close_matches

from herdbeat.errors import CronNeverFires, CronParseError, truncate_for_message
from herdbeat.triggers.cron.pattern import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MONTH_NAMES,
    WEEKDAY_NAMES,
    CronField,
    select_cron_fields,
)

TokenProblem = tuple[str, str]
"""What is wrong, and the hint."""


def parse_error(
    expression: str, problem: str, *, field: str | None = None, token: str | None = None, hint: str = ""
) -> CronParseError:
    message = f'Invalid cron expression "{truncate_for_message(expression, 60)}": {problem}.'
    return CronParseError(message, expression, field=field, token=token, hint=hint)


def never_fires_error(expression: str, fields: list[str]) -> CronNeverFires:
    """Return the error for an expression whose fields are valid, but whose date exists in no year."""
    day, month, weekday = fields[-3:]
    when = f"day of month {day} in month {month}"
    if weekday not in ("*", "?"):
        when += f" on day of week {weekday}"
    return CronNeverFires(
        f'Invalid cron expression "{truncate_for_message(expression, 60)}": it would never run, no year has {when}.',
        expression,
        field=DAY_OF_MONTH.name,
        token=day,
        hint="Take a day that the month has; L is its last one.",
    )


def find_invalid_token(expression: str, fields: list[str]) -> CronParseError | None:
    """Return the error for the first invalid token from the left; None if every field is valid by itself."""
    for cron_field, field in zip(select_cron_fields(fields), fields, strict=True):
        # An empty item among others is ignored; a field without any other item is checked as one empty item.
        items = [item for item in field.removeprefix("+" if cron_field is DAY_OF_WEEK else "").split(",") if item]
        if len(items) > 1 and "?" in items:
            problem = f"{cron_field.name}: ? must stand alone, got {field}"
            return parse_error(expression, problem, field=cron_field.name, token=field)
        for item in items or [""]:
            if token_problem := _check_item(cron_field, item):
                problem, hint = token_problem
                return parse_error(expression, problem, field=cron_field.name, token=item or field, hint=hint)
    return None


def _check_item(cron_field: CronField, item: str) -> TokenProblem | None:
    base, slash, step = item.partition("/")
    is_nth = "#" in base or (cron_field is DAY_OF_WEEK and base.endswith("L"))
    if slash and not (step.isdigit() and int(step) > 0):
        problem = f"{cron_field.name} step must be a whole number from 1, got {_format_token(step)}"
        return problem, f'Write for example "{base or "*"}/5".'
    if slash and (is_nth or _is_special_day(cron_field, base)):
        problem = f"{cron_field.name} cannot have a step there, got {item}"
        return problem, 'A step goes with * or a range: "*/5", "9-17/2".'
    if base == "*" or _is_special_day(cron_field, base):
        return None
    if is_nth:
        return _check_nth(cron_field, base)
    return _check_values(cron_field, base) or _check_range_order(cron_field, base)


def _is_special_day(cron_field: CronField, base: str) -> bool:
    if cron_field is DAY_OF_MONTH:
        return base in ("L", "LW", "?") or bool(re.fullmatch(r"([1-9]|[12][0-9]|3[01])W", base))
    return cron_field is DAY_OF_WEEK and base == "?"


def _check_nth(cron_field: CronField, base: str) -> TokenProblem | None:
    if cron_field is not DAY_OF_WEEK:
        return f"{cron_field.name} cannot have a #, got {base}", "FRI#2 belongs into the last field, the day of week."
    day, _, nth = base.partition("#") if "#" in base else (base.removesuffix("L"), "", "L")
    if not day:
        hint = "FRIL is the last Friday; the last day of the month is an L in the day of month."
        return f"{cron_field.name} needs a weekday before {base}", hint
    if value_problem := _check_values(cron_field, day):
        return value_problem
    if nth not in ("L", "1", "2", "3", "4", "5"):
        problem = f"{cron_field.name}: the number after # must be 1-5 or L, got {_format_token(nth)}"
        return problem, "FRI#2 is the second Friday."
    return _check_range_order(cron_field, day)


def _check_values(cron_field: CronField, text: str) -> TokenProblem | None:
    """Check the value of an item, or both ends of a range."""
    invalid = [value for value in text.split("-", 1) if cron_field.value(value) is None]
    return _invalid_value(cron_field, invalid[0]) if invalid else None


def _check_range_order(cron_field: CronField, text: str) -> TokenProblem | None:
    first, _, last = text.partition("-")
    low, high = cron_field.value(first), cron_field.value(last)
    if low is None or high is None or low <= high or (last == "SUN" and low > 0):
        return None
    hint = f'Write it as "{_split_range(cron_field, first, last)}".'
    return f"{cron_field.name} range {first}-{last} runs backwards", hint


def _split_range(cron_field: CronField, first: str, last: str) -> str:
    """Return a range that runs backwards as two that do not: FRI-MON -> FRI-SUN,MON; 22-2 -> 22-23,0-2."""
    top, bottom = str(cron_field.high), str(cron_field.low)
    if cron_field is DAY_OF_WEEK:
        top, bottom = ("SUN", "MON") if first in WEEKDAY_NAMES else ("7", "1")
    elif cron_field.names and first in MONTH_NAMES:
        top, bottom = MONTH_NAMES[-1], MONTH_NAMES[0]
    front = first if cron_field.value(first) == cron_field.value(top) else f"{first}-{top}"
    back = last if cron_field.value(last) == cron_field.value(bottom) else f"{bottom}-{last}"
    return front if last == "0" and cron_field is DAY_OF_WEEK else f"{front},{back}"


def _invalid_value(cron_field: CronField, value: str) -> TokenProblem:
    problem = f"{cron_field.name} must be {cron_field.allowed}, got {_format_token(value)}"
    if value in ("L", "W", "LW", "?") or re.fullmatch(r"[0-9]{1,2}[LW]", value):
        return problem, f"{value} is not possible there."
    if cron_field is HOUR and value == "24":
        return problem, "Midnight is hour 0."
    # The first three letters: full names and SEPT begin with the abbreviation that cron knows.
    guess = get_close_matches(value[:3], cron_field.names, n=1, cutoff=0.6)
    if guess and not value.isdigit():
        return problem, f"Did you mean {guess[0]}?"
    example = f" or a name such as {next(iter(cron_field.names))}" if cron_field.names else ""
    return problem, f"Write a number of that range{example}."


def _format_token(value: str) -> str:
    return truncate_for_message(value) if value else "nothing"
