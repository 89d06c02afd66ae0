"""From text to pattern. cronsim reads; what it cannot read is translated, or explained."""

from functools import lru_cache

from cronsim import CronSimError

from herdbeat.errors import CronParseError
from herdbeat.triggers.cron.complaint import find_invalid_token, never_fires_error, parse_error
from herdbeat.triggers.cron.days import DayMatcher, NearestWeekdayMatcher
from herdbeat.triggers.cron.dialect import translate_fields
from herdbeat.triggers.cron.pattern import CronPattern

MAX_EXPRESSION_LENGTH = 500
"""Characters. A list of every second is shorter; what is longer is a mistake, or an attack."""

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


@lru_cache(maxsize=4096)
def parse_expression(expression: str) -> CronPattern:
    """Raises CronParseError or CronNeverFires, and nothing else, whatever the text.

    Remembered, because a store builds the triggers of its rows again and again.
    """
    fields = _split_fields(expression)
    days = _parse_days(expression, fields)
    if not days.is_possible:
        raise never_fires_error(expression, fields)
    return CronPattern.from_days(days)


def _split_fields(expression: str) -> list[str]:
    """The five or six fields, in capitals."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise parse_error(
            expression, f"it has {len(expression)} characters", hint=f"At most {MAX_EXPRESSION_LENGTH} are read."
        )
    # Before upper(): it would turn a long s or a dotless i into the plain letter of a weekday.
    if not expression.isascii() or "\0" in expression:
        raise parse_error(expression, "only plain ASCII characters are allowed", hint="Type it instead of pasting it.")
    tokens = expression.upper().split()
    if tokens and tokens[0].startswith("@"):
        return _expand_nickname(expression)
    if len(tokens) == 7 and tokens[6] in ("*", "?"):
        tokens.pop()  # agentd's dialect may end in a year; any year is what we mean anyway
    if len(tokens) not in (5, 6):
        raise _field_count_error(expression, len(tokens))
    return tokens


def _expand_nickname(expression: str) -> list[str]:
    name = expression.strip().lower()
    if name in NICKNAMES:
        return NICKNAMES[name].split()
    hint = f"The known names are {', '.join(NICKNAMES)}."
    if name.startswith("@every"):
        hint = _INTERVAL_HINT
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
    translation = translate_fields(fields)
    try:
        if translation.nearest_days:
            return NearestWeekdayMatcher(
                translation.fields, translation.nearest_days, require_both=translation.require_both
            )
        return DayMatcher(translation.fields, require_both=translation.require_both)
    except CronSimError as error:
        raise (find_invalid_token(expression, fields) or never_fires_error(expression, fields)) from error
