"""From text to pattern. cronsim reads; what it cannot read is translated, or explained."""

from functools import lru_cache

from cronsim import CronSimError

from herdbeat.errors import CronParseError
from herdbeat.triggers.cron.complaint import never_fires, refusal, wrong_token
from herdbeat.triggers.cron.days import Days, DaysNearWeekdays
from herdbeat.triggers.cron.dialect import translate
from herdbeat.triggers.cron.pattern import Pattern

LONGEST = 500
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

_DISTANCE = 'For a plain distance use an interval, which is a duration alone: "5m".'


@lru_cache(maxsize=4096)
def read(expression: str) -> Pattern:
    """Raises CronParseError or CronNeverFires, and nothing else, whatever the text.

    Remembered, because a store builds the triggers of its rows again and again.
    """
    fields = _fields(expression)
    days = _days(expression, fields)
    if not days.is_possible:
        raise never_fires(expression, fields)
    return Pattern.of(days)


def _fields(expression: str) -> list[str]:
    """The five or six fields, in capitals."""
    if len(expression) > LONGEST:
        raise refusal(expression, f"it has {len(expression)} characters", hint=f"At most {LONGEST} are read.")
    # Before upper(): it would turn a long s or a dotless i into the plain letter of a weekday.
    if not expression.isascii() or "\0" in expression:
        raise refusal(expression, "only plain ASCII characters are allowed", hint="Type it instead of pasting it.")
    words = expression.upper().split()
    if words and words[0].startswith("@"):
        return _nickname(expression)
    if len(words) == 7 and words[6] in ("*", "?"):
        words.pop()  # agentd's dialect may end in a year; any year is what we mean anyway
    if len(words) not in (5, 6):
        raise _wrong_number(expression, len(words))
    return words


def _nickname(expression: str) -> list[str]:
    name = expression.strip().lower()
    if name in NICKNAMES:
        return NICKNAMES[name].split()
    hint = f"The known names are {', '.join(NICKNAMES)}."
    if name.startswith("@every"):
        hint = _DISTANCE
    raise refusal(expression, f"{name.split()[0]} is not a known name", token=name, hint=hint)


def _wrong_number(expression: str, got: int) -> CronParseError:
    if expression.strip().lower().startswith("every "):
        hint = _DISTANCE
    elif got == 7:
        hint = "The seventh field would be the year, and only * is possible there."
    else:
        hint = 'Write minute, hour, day of month, month and day of week, for example "0 9 * * MON-FRI".'
    return refusal(expression, f"expected 5 or 6 fields, got {got}", hint=hint)


def _days(expression: str, fields: list[str]) -> Days:
    try:
        return Days(fields)
    except CronSimError:
        pass
    translated = translate(fields)
    try:
        if translated.nearest:
            return DaysNearWeekdays(translated.fields, translated.nearest, both=translated.both)
        return Days(translated.fields, both=translated.both)
    except CronSimError as error:
        raise (wrong_token(expression, fields) or never_fires(expression, fields)) from error
