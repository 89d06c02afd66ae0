"""What is wrong with an expression: the field, the token, what is allowed, and what was probably meant."""

import re
from difflib import get_close_matches

from herdbeat.errors import CronNeverFires, CronParseError, shown
from herdbeat.triggers.cron.vocabulary import DAY, HOUR, MONTHS, WEEKDAY, WEEKDAYS, Word, words_for

Finding = tuple[str, str]
"""What is wrong, and the hint."""


def refusal(
    expression: str, problem: str, *, field: str | None = None, token: str | None = None, hint: str = ""
) -> CronParseError:
    message = f'Invalid cron expression "{shown(expression, 60)}": {problem}.'
    return CronParseError(message, expression, field=field, token=token, hint=hint)


def never_fires(expression: str, fields: list[str]) -> CronNeverFires:
    """For an expression whose fields are right, each for itself."""
    day, month, weekday = fields[-3:]
    when = f"day of month {day} in month {month}"
    if weekday not in ("*", "?"):
        when += f" on day of week {weekday}"
    return CronNeverFires(
        f'Invalid cron expression "{shown(expression, 60)}": it would never run, no year has {when}.',
        expression,
        field=DAY.name,
        token=day,
        hint="Take a day that the month has; L is its last one.",
    )


def wrong_token(expression: str, fields: list[str]) -> CronParseError | None:
    """The first thing wrong, reading from the left; None if every field is right for itself."""
    for word, field in zip(words_for(fields), fields, strict=True):
        # An empty item among others means nothing; a field of nothing else is checked as one empty item.
        items = [item for item in field.removeprefix("+" if word is WEEKDAY else "").split(",") if item]
        if len(items) > 1 and "?" in items:
            return refusal(expression, f"{word.name}: ? must stand alone, got {field}", field=word.name, token=field)
        for item in items or [""]:
            if finding := _check(word, item):
                problem, hint = finding
                return refusal(expression, problem, field=word.name, token=item or field, hint=hint)
    return None


def _check(word: Word, item: str) -> Finding | None:
    base, slash, step = item.partition("/")
    if slash and not (step.isdigit() and int(step) > 0):
        return (
            f"{word.name} step must be a whole number from 1, got {_token(step)}",
            f'Write for example "{base or "*"}/5".',
        )
    if slash and (_is_special(word, base) or "#" in base or (word is WEEKDAY and base.endswith("L"))):
        return f"{word.name} cannot have a step there, got {item}", 'A step goes with * or a range: "*/5", "9-17/2".'
    if base == "*" or _is_special(word, base):
        return None
    if "#" in base or (word is WEEKDAY and base.endswith("L")):
        return _check_nth(word, base)
    first, dash, last = base.partition("-")
    for value in (first, last) if dash else (first,):
        if word.value(value) is None:
            return _not_a_value(word, value)
    return _check_order(word, first, last) if dash else None


def _is_special(word: Word, base: str) -> bool:
    if word is DAY:
        return base in ("L", "LW", "?") or bool(re.fullmatch(r"([1-9]|[12][0-9]|3[01])W", base))
    return word is WEEKDAY and base == "?"


def _check_nth(word: Word, base: str) -> Finding | None:
    if word is not WEEKDAY:
        return f"{word.name} cannot have a #, got {base}", "FRI#2 belongs into the last field, the day of week."
    day, _, nth = base.partition("#") if "#" in base else (base.removesuffix("L"), "", "L")
    if not day:
        return (
            f"{word.name} needs a weekday before {base}",
            "FRIL is the last Friday; the last day of the month is an L in the day of month.",
        )
    first, dash, last = day.partition("-")
    for value in (first, last) if dash else (first,):
        if word.value(value) is None:
            return _not_a_value(word, value)
    if nth != "L" and nth not in ("1", "2", "3", "4", "5"):
        return f"{word.name}: the number after # must be 1-5 or L, got {_token(nth)}", "FRI#2 is the second Friday."
    return _check_order(word, first, last) if dash else None


def _check_order(word: Word, first: str, last: str) -> Finding | None:
    low, high = word.value(first), word.value(last)
    assert low is not None
    assert high is not None
    if low <= high or (last == "SUN" and low > 0):
        return None
    return f"{word.name} range {first}-{last} runs backwards", f'Write it as "{_split_range(word, first, last)}".'


def _split_range(word: Word, first: str, last: str) -> str:
    """FRI-MON -> FRI-SUN,MON; 22-2 -> 22-23,0-2."""
    top, bottom = str(word.high), str(word.low)
    if word is WEEKDAY:
        top, bottom = ("SUN", "MON") if first in WEEKDAYS else ("7", "1")
    elif word.names and first in MONTHS:
        top, bottom = MONTHS[-1], MONTHS[0]
    front = first if word.value(first) == word.value(top) else f"{first}-{top}"
    back = last if word.value(last) == word.value(bottom) else f"{bottom}-{last}"
    return front if last == "0" and word is WEEKDAY else f"{front},{back}"


def _not_a_value(word: Word, value: str) -> Finding:
    problem = f"{word.name} must be {word.allowed}, got {_token(value)}"
    if value in ("L", "W", "LW", "?") or re.fullmatch(r"[0-9]{1,2}[LW]", value):
        return problem, f"{value} is not possible there."
    if word is HOUR and value == "24":
        return problem, "Midnight is hour 0."
    guess = get_close_matches(_as_name(value), word.names, n=1, cutoff=0.6)
    if guess and not value.isdigit():
        return problem, f"Did you mean {guess[0]}?"
    example = f" or a name such as {next(iter(word.names))}" if word.names else ""
    return problem, f"Write a number of that range{example}."


def _as_name(value: str) -> str:
    """MONDAY and SEPT begin like the name that they mean."""
    return value[:3] if len(value) > 3 else value


def _token(value: str) -> str:
    return shown(value) if value else "nothing"
