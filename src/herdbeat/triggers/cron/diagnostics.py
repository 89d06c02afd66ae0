"""What is wrong with an expression: the field, the token, what is allowed, and what was probably meant."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from zoneinfo import ZoneInfo

from herdbeat.errors import CronNeverFires, CronParseError, truncate_for_message
from herdbeat.triggers.cron.dst import OffsetTransition, first_transition, last_transition, utc_offset
from herdbeat.triggers.cron.instants import find_transition
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

TokenProblem = tuple[str, str]
"""What is wrong, and the hint."""


def parse_error(
    expression: str, problem: str, *, field: str | None = None, token: str | None = None, hint: str = ""
) -> CronParseError:
    message = f'Invalid cron expression "{truncate_for_message(expression, 60)}": {problem}.'
    return CronParseError(message, expression, field=field, token=token, hint=hint)


def never_fires_error(expression: str, fields: list[str]) -> CronNeverFires:
    """For an expression whose fields are right, each for itself."""
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
    """The first thing wrong, reading from the left; None if every field is right for itself."""
    for cron_field, field in zip(select_cron_fields(fields), fields, strict=True):
        # An empty item among others means nothing; a field of nothing else is checked as one empty item.
        items = [item for item in field.removeprefix("+" if cron_field is DAY_OF_WEEK else "").split(",") if item]
        if len(items) > 1 and "?" in items:
            return parse_error(
                expression, f"{cron_field.name}: ? must stand alone, got {field}", field=cron_field.name, token=field
            )
        for item in items or [""]:
            if token_problem := _check_item(cron_field, item):
                problem, hint = token_problem
                return parse_error(expression, problem, field=cron_field.name, token=item or field, hint=hint)
    return None


def _check_item(cron_field: CronField, item: str) -> TokenProblem | None:
    base, slash, step = item.partition("/")
    if slash and not (step.isdigit() and int(step) > 0):
        return (
            f"{cron_field.name} step must be a whole number from 1, got {_format_token(step)}",
            f'Write for example "{base or "*"}/5".',
        )
    if slash and (
        _is_special_day(cron_field, base) or "#" in base or (cron_field is DAY_OF_WEEK and base.endswith("L"))
    ):
        return (
            f"{cron_field.name} cannot have a step there, got {item}",
            'A step goes with * or a range: "*/5", "9-17/2".',
        )
    if base == "*" or _is_special_day(cron_field, base):
        return None
    if "#" in base or (cron_field is DAY_OF_WEEK and base.endswith("L")):
        return _check_nth(cron_field, base)
    first, dash, last = base.partition("-")
    for value in (first, last) if dash else (first,):
        if cron_field.value(value) is None:
            return _invalid_value(cron_field, value)
    return _check_range_order(cron_field, first, last) if dash else None


def _is_special_day(cron_field: CronField, base: str) -> bool:
    if cron_field is DAY_OF_MONTH:
        return base in ("L", "LW", "?") or bool(re.fullmatch(r"([1-9]|[12][0-9]|3[01])W", base))
    return cron_field is DAY_OF_WEEK and base == "?"


def _check_nth(cron_field: CronField, base: str) -> TokenProblem | None:
    if cron_field is not DAY_OF_WEEK:
        return f"{cron_field.name} cannot have a #, got {base}", "FRI#2 belongs into the last field, the day of week."
    day, _, nth = base.partition("#") if "#" in base else (base.removesuffix("L"), "", "L")
    if not day:
        return (
            f"{cron_field.name} needs a weekday before {base}",
            "FRIL is the last Friday; the last day of the month is an L in the day of month.",
        )
    first, dash, last = day.partition("-")
    for value in (first, last) if dash else (first,):
        if cron_field.value(value) is None:
            return _invalid_value(cron_field, value)
    if nth != "L" and nth not in ("1", "2", "3", "4", "5"):
        return (
            f"{cron_field.name}: the number after # must be 1-5 or L, got {_format_token(nth)}",
            "FRI#2 is the second Friday.",
        )
    return _check_range_order(cron_field, first, last) if dash else None


def _check_range_order(cron_field: CronField, first: str, last: str) -> TokenProblem | None:
    low, high = cron_field.value(first), cron_field.value(last)
    assert low is not None
    assert high is not None
    if low <= high or (last == "SUN" and low > 0):
        return None
    return (
        f"{cron_field.name} range {first}-{last} runs backwards",
        f'Write it as "{_split_range(cron_field, first, last)}".',
    )


def _split_range(cron_field: CronField, first: str, last: str) -> str:
    """FRI-MON -> FRI-SUN,MON; 22-2 -> 22-23,0-2."""
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
    guess = get_close_matches(_name_prefix(value), cron_field.names, n=1, cutoff=0.6)
    if guess and not value.isdigit():
        return problem, f"Did you mean {guess[0]}?"
    example = f" or a name such as {next(iter(cron_field.names))}" if cron_field.names else ""
    return problem, f"Write a number of that range{example}."


def _name_prefix(value: str) -> str:
    """MONDAY and SEPT begin like the name that they mean."""
    return value[:3] if len(value) > 3 else value


def _format_token(value: str) -> str:
    return truncate_for_message(value) if value else "nothing"


# What a clock change did to an instant, in data and in words.


class DstNoteKind(StrEnum):
    MOVED = "moved"  # its time does not exist that night; it runs right after the gap
    REPEATED = "repeated"  # its time comes twice that night
    CHANGED = "changed"  # the clocks changed since the instant before


@dataclass(frozen=True, slots=True, kw_only=True)
class DstNote:
    """One remark about one instant. `change_at` is when the clocks change, `nominal` the written wall time."""

    kind: DstNoteKind
    text: str
    change_at: datetime
    nominal: datetime | None = None


def find_dst_notes(
    pattern: CronPattern, zone: ZoneInfo, instant: datetime, previous: datetime | None
) -> tuple[DstNote, ...]:
    """The remarks about `instant`; most have none."""
    note = _moved_note(pattern, zone, instant - pattern.shift) or _repeated_note(pattern, zone, instant)
    if note is None and previous is not None:
        note = _changed_note(zone, previous, instant)
    return (note,) if note else ()


def _moved_note(pattern: CronPattern, zone: ZoneInfo, instant: datetime) -> DstNote | None:
    transition = first_transition(zone, instant - timedelta(seconds=1), instant)
    if not pattern.is_fixed or transition is None or not transition.is_forward:
        return None
    nominal = pattern.first(transition.wall_before)
    if nominal >= transition.wall_after:
        return None
    text = f"{nominal:%H:%M} does not exist that night; runs at {transition.wall_after:%H:%M}"
    return DstNote(kind=DstNoteKind.MOVED, text=text, change_at=transition.at, nominal=nominal)


def _repeated_note(pattern: CronPattern, zone: ZoneInfo, instant: datetime) -> DstNote | None:
    wall = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    if zone.utcoffset(wall) == zone.utcoffset(wall.replace(fold=1)):
        return None
    times = "the first time" if pattern.is_fixed else "both times"
    text = f"{wall:%H:%M} happens twice that night; runs {times}"
    return DstNote(kind=DstNoteKind.REPEATED, text=text, change_at=find_transition(zone, wall).at, nominal=wall)


def _changed_note(zone: ZoneInfo, previous: datetime, instant: datetime) -> DstNote | None:
    if utc_offset(zone, previous) == utc_offset(zone, instant):
        return None
    transition = last_transition(zone, previous, instant)
    assert transition is not None
    direction = "forward" if transition.is_forward else "back"
    text = f"clocks went {direction} on {_transition_date(transition)}"
    return DstNote(kind=DstNoteKind.CHANGED, text=text, change_at=transition.at)


def _transition_date(transition: OffsetTransition) -> str:
    """The local date of a change; one at midnight belongs to the night that it ends."""
    day = transition.wall_after if transition.is_forward else transition.wall_before - timedelta(seconds=1)
    return f"{day.day} {day:%b}"
