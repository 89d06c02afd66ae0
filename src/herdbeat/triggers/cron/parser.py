"""Parses expressions. cronsim does the parsing; notations that it does not know are translated first.

Those are `?`, `15W`, `FRI#L`, `SAT-SUN`, and the leading `+` and the empty items of agentd's dialect.
"""

import re
from functools import lru_cache

from cronsim import CronSimError

from herdbeat.errors import CronParseError
from herdbeat.triggers.cron.day_match import DayMatcher, NearestWeekdayMatcher
from herdbeat.triggers.cron.diagnostics import find_invalid_token, never_fires_error, parse_error
from herdbeat.triggers.cron.pattern import DAY_OF_WEEK, CronPattern

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

_INTERVAL_HINT = 'For a plain distance use an interval, which is a duration alone: "5m".'

_NEAREST_PATTERN = re.compile(r"([0-9]{1,2})W")
_NTH_PATTERN = re.compile(r"(?P<first>[0-9A-Z]+)(-(?P<last>[0-9A-Z]+))?#(?P<nth>[0-9L]+)")
_LAST_PATTERN = re.compile(r"(?P<first>[0-9A-Z]+?)(-(?P<last>[0-9A-Z]+?))?L")
_TO_SUNDAY_PATTERN = re.compile(r"(?P<first>0*[1-7]|(?!SUN)[A-Z]{3})-SUN(?P<step>/.*)?")


@lru_cache(maxsize=4096)
def parse_expression(expression: str) -> CronPattern:
    """Return the pattern of an expression. For any text it raises only CronParseError or CronNeverFires.

    Cached, because the store builds the triggers of its rows at every read.
    """
    fields = _split_fields(expression)
    days = _parse_days(expression, fields)
    if not days.is_possible:
        raise never_fires_error(expression, fields)
    return CronPattern.from_days(days)


def _split_fields(expression: str) -> list[str]:
    """Return the five or six fields, in upper case."""
    length = len(expression)
    if length > MAX_EXPRESSION_LENGTH:
        raise parse_error(expression, f"it has {length} characters", hint=f"At most {MAX_EXPRESSION_LENGTH} are read.")
    # Checked before upper(), which turns the letters ſ and ı into S and I: part of a weekday's name.
    if not expression.isascii() or "\0" in expression:
        raise parse_error(expression, "only plain ASCII characters are allowed", hint="Type it instead of pasting it.")
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
    raise parse_error(expression, f"{name.split()[0]} is not a known name", token=name, hint=hint)


def _field_count_error(expression: str, field_count: int) -> CronParseError:
    if expression.strip().lower().startswith("every "):
        hint = _INTERVAL_HINT
    elif field_count == 7:
        hint = "The seventh field would be the year, and only * is possible there."
    else:
        hint = 'Write minute, hour, day of month, month and day of week, for example "0 9 * * MON-FRI".'
    return parse_error(expression, f"expected 5 or 6 fields, got {field_count}", hint=hint)


def _parse_days(expression: str, fields: list[str]) -> DayMatcher:
    try:
        return DayMatcher(fields)
    except CronSimError:
        pass
    try:
        return _parse_translated(fields)
    except CronSimError as error:
        raise (find_invalid_token(expression, fields) or never_fires_error(expression, fields)) from error


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
