"""Parses expressions. cronsim does the parsing; notations that it does not know are translated first.

Those are `?`, `15W`, `FRI#L`, `SAT-SUN`, and the leading `+` and the empty items of agentd's dialect. An error names
the field, the token and the allowed values, and suggests a correction.
"""

import re
from difflib import get_close_matches
from functools import lru_cache

from cronsim import CronSimError

from herdbeat.errors import CronNeverFires, CronParseError, truncate_for_message
from herdbeat.triggers.cron.day_match import DayMatcher, NearestWeekdayMatcher
from herdbeat.triggers.cron.pattern import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MONTH_NAMES,
    WEEKDAY_NAMES,
    CronField,
    CronPattern,
    select_cron_fields,
)

MAX_EXPRESSION_LENGTH = 500
"""A list of every second of the minute is shorter. Anything longer is a mistake or an attack."""

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_INTERVAL_HINT = 'For a fixed interval, use a duration: "5m".'

_NEAREST_PATTERN = re.compile(r"([0-9]{1,2})W")
_NTH_PATTERN = re.compile(r"(?P<first>[0-9A-Z]+)(-(?P<last>[0-9A-Z]+))?#(?P<nth>[0-9L]+)")
_LAST_PATTERN = re.compile(r"(?P<first>[0-9A-Z]+?)(-(?P<last>[0-9A-Z]+?))?L")
_TO_SUNDAY_PATTERN = re.compile(r"(?P<first>0*[1-7]|(?!SUN)[A-Z]{3})-SUN(?P<step>/.*)?")

TokenProblem = tuple[str, str]
"""What is wrong, and the hint."""


@lru_cache(maxsize=4096)
def parse_expression(expression: str) -> CronPattern:
    """Return the pattern of an expression. For any text it raises only CronParseError or CronNeverFires.

    Cached, because the store builds the triggers of its rows at every read.
    """
    fields = _split_fields(expression)
    days = _parse_days(expression, fields)
    if not days.is_possible:
        raise _never_fires_error(expression, fields)
    return CronPattern.from_days(days)


def _split_fields(expression: str) -> list[str]:
    """Return the five or six fields, in upper case."""
    length = len(expression)
    if length > MAX_EXPRESSION_LENGTH:
        raise _parse_error(expression, f"it has {length} characters", hint=f"The limit is {MAX_EXPRESSION_LENGTH}.")
    # Checked before upper(), which turns the letters ſ and ı into S and I: part of a weekday's name.
    if not expression.isascii() or "\0" in expression:
        raise _parse_error(expression, "only plain ASCII characters are allowed", hint="Type it instead of pasting it.")
    tokens = expression.upper().split()
    if tokens and tokens[0].startswith("@"):
        return _expand_nickname(expression)
    if len(tokens) == 7 and tokens[6] in ("*", "?"):
        tokens.pop()  # agentd's dialect allows a year at the end; * and ? mean any year, as without it
    if len(tokens) not in (5, 6):
        raise _field_count_error(expression, len(tokens))
    return tokens


def _expand_nickname(expression: str) -> list[str]:
    name = expression.strip().lower()
    if name in NICKNAMES:
        return NICKNAMES[name].split()
    known = f"The known names are {', '.join(NICKNAMES)}."
    hint = _INTERVAL_HINT if name.startswith("@every") else known
    raise _parse_error(expression, f"{name.split()[0]} is not a known name", token=name, hint=hint)


def _field_count_error(expression: str, field_count: int) -> CronParseError:
    if expression.strip().lower().startswith("every "):
        hint = _INTERVAL_HINT
    elif field_count == 7:
        hint = "The seventh field is the year; only * is supported."
    else:
        hint = 'Write minute, hour, day of month, month and day of week, for example "0 9 * * MON-FRI".'
    return _parse_error(expression, f"expected 5 or 6 fields, got {field_count}", hint=hint)


def _parse_days(expression: str, fields: list[str]) -> DayMatcher:
    try:
        return DayMatcher(fields)
    except CronSimError:
        pass
    try:
        return _parse_translated(fields)
    except CronSimError as error:
        raise (_find_invalid_token(expression, fields) or _never_fires_error(expression, fields)) from error


def _parse_translated(fields: list[str]) -> DayMatcher:
    """Parse fields with notations that cronsim does not know. Raises CronSimError for what stays invalid."""
    require_both = fields[-1].startswith("+")
    *front, day, month, weekday = map(_drop_empty_items, [*fields[:-1], fields[-1].removeprefix("+")])
    items = ["*"] if day == "?" else day.split(",")
    nearest_days = [item for item in items if _is_nearest_weekday(item)]
    known_days = ",".join(item for item in items if item not in nearest_days)
    translated = [*front, known_days, month, _translate_weekdays(weekday)]
    if not nearest_days:
        return DayMatcher(translated, require_both=require_both)
    numbers = frozenset(int(item[:-1]) for item in nearest_days)
    return NearestWeekdayMatcher(translated, numbers, require_both=require_both)


def _drop_empty_items(field: str) -> str:
    """Return the field without empty items: agentd's dialect reads "1,,2" as "1,2"."""
    return ",".join(item for item in field.split(",") if item) or field


def _is_nearest_weekday(item: str) -> bool:
    match = _NEAREST_PATTERN.fullmatch(item)
    return match is not None and 1 <= int(match[1]) <= 31


def _translate_weekdays(field: str) -> str:
    return "*" if field == "?" else ",".join(_translate_weekday(item) for item in field.split(","))


def _translate_weekday(item: str) -> str:
    if match := _TO_SUNDAY_PATTERN.fullmatch(item):
        return f"{match['first']}-7{match['step'] or ''}"  # cronsim reads SUN as 0: SAT-SUN would run backwards
    if match := _LAST_PATTERN.fullmatch(item):
        return _expand_nth(match["first"], match["last"] or match["first"], "L", item)
    if match := _NTH_PATTERN.fullmatch(item):
        return _expand_nth(match["first"], match["last"] or match["first"], match["nth"], item)
    return item


def _expand_nth(first: str, last: str, nth: str, item: str) -> str:
    """Return one item per weekday: `MON-WED#2` -> `1#2,2#2,3#2`; `FRI#L` -> `5L`."""
    low, high = DAY_OF_WEEK.value(first), DAY_OF_WEEK.value("7" if last == "SUN" and first != "SUN" else last)
    if low is None or high is None or low > high:
        return item
    suffix = "L" if nth == "L" else f"#{nth}"
    return ",".join(f"{day}{suffix}" for day in range(low, high + 1))


# Errors. They are built only after cronsim has rejected an expression, so their cost does not matter.


def _parse_error(
    expression: str, problem: str, *, field: str | None = None, token: str | None = None, hint: str = ""
) -> CronParseError:
    message = f'Invalid cron expression "{truncate_for_message(expression, 60)}": {problem}.'
    return CronParseError(message, expression, field=field, token=token, hint=hint)


def _never_fires_error(expression: str, fields: list[str]) -> CronNeverFires:
    """Return the error for an expression whose fields are valid, but whose date exists in no year."""
    day, month, weekday = fields[-3:]
    when = f"day of month {day} in month {month}"
    if weekday not in ("*", "?"):
        when += f" on day of week {weekday}"
    return CronNeverFires(
        f'Invalid cron expression "{truncate_for_message(expression, 60)}": it never runs, because no year has {when}.',
        expression,
        field=DAY_OF_MONTH.name,
        token=day,
        hint="Use a day that exists in the month; L is the last day.",
    )


def _find_invalid_token(expression: str, fields: list[str]) -> CronParseError | None:
    """Return the error for the first invalid token from the left; None if every field is valid by itself."""
    for cron_field, field in zip(select_cron_fields(fields), fields, strict=True):
        # An empty item among others is ignored; a field without any other item is checked as one empty item.
        items = [item for item in field.removeprefix("+" if cron_field is DAY_OF_WEEK else "").split(",") if item]
        if len(items) > 1 and "?" in items:
            problem = f"{cron_field.name}: ? must stand alone, got {field}"
            return _parse_error(expression, problem, field=cron_field.name, token=field)
        for item in items or [""]:
            if token_problem := _check_item(cron_field, item):
                problem, hint = token_problem
                return _parse_error(expression, problem, field=cron_field.name, token=item or field, hint=hint)
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
        return f"{cron_field.name} cannot have a #, got {base}", "Use FRI#2 in the last field, the day of week."
    day, _, nth = base.partition("#") if "#" in base else (base.removesuffix("L"), "", "L")
    if not day:
        hint = "FRIL is the last Friday; for the last day of the month, use L as the day of month."
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
    return f"{cron_field.name} range {first}-{last} is reversed", hint


def _split_range(cron_field: CronField, first: str, last: str) -> str:
    """Return a range that is reversed as two that do not: FRI-MON -> FRI-SUN,MON; 22-2 -> 22-23,0-2."""
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
        return problem, f"{value} is not supported in this field."
    if cron_field is HOUR and value == "24":
        return problem, "Midnight is hour 0."
    # The first three letters: full names and SEPT begin with the abbreviation that cron knows.
    guess = get_close_matches(value[:3], cron_field.names, n=1, cutoff=0.6)
    if guess and not value.isdigit():
        return problem, f"Did you mean {guess[0]}?"
    example = f" or a name such as {next(iter(cron_field.names))}" if cron_field.names else ""
    return problem, f"Use a number in that range{example}."


def _format_token(value: str) -> str:
    return truncate_for_message(value) if value else "nothing"
