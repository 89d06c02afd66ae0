"""Durations: parse and format one whole number with one unit, "5m" <-> timedelta(minutes=5)."""

import re
from datetime import timedelta
from functools import lru_cache

from herdbeat.errors import IntervalParseError, truncate_for_message

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

MAX_DURATION = timedelta(days=36_500)
"""A hundred years. Anything longer is a typing mistake, and `now` plus it may leave the range of datetime."""

_DURATION_PATTERN = re.compile(r"(?P<sign>[+-]?)(?P<number>[0-9]+([.,][0-9]*)?|[.,][0-9]+)\s*(?P<unit>.*)", re.DOTALL)
_FORMAT_HINT = 'Write a whole number and a unit (s, m, h, d), for example "5m".'


def parse_duration(text: str) -> timedelta:
    """Parse "30s", "5m", "1h" or "1d", in upper or lower case.

    Raises IntervalParseError, whose message names the fault and whose hint shows what to write.
    """
    normalized = text.strip()
    if not normalized:
        raise IntervalParseError("The duration is empty.", text, hint=_FORMAT_HINT)
    match = _DURATION_PATTERN.fullmatch(normalized)
    if match is None:
        raise _parse_error(text, " is not a duration.")
    _reject_sign_and_decimals(text, match)
    unit = _parse_unit(text, match)
    # Seventeen digits exceed the limit in every unit. More are cut off, because int() raises on thousands of digits.
    seconds = int(match["number"].lstrip("0")[:17] or 0) * unit
    if seconds == 0:
        raise _parse_error(text, ": zero is not allowed.", 'The shortest duration is "1s".')
    if seconds > MAX_DURATION.total_seconds():
        raise _parse_error(text, " is longer than 100 years.", f'The longest duration is "{MAX_DURATION.days}d".')
    return timedelta(seconds=seconds)


@lru_cache(maxsize=1_000)  # called at every beat, and a fleet has few different intervals
def format_duration(duration: timedelta) -> str:
    """Return the shortest form in one unit, such that parse_duration() returns the same duration.

    A duration that parse_duration() does not accept (zero, negative, or not whole seconds) is
    returned as its exact seconds, for people to read only.
    """
    if duration.microseconds or duration <= timedelta(0):
        return f"{duration.total_seconds():g}s"
    seconds = duration.days * 86_400 + duration.seconds
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % UNIT_SECONDS[unit] == 0)
    return f"{seconds // UNIT_SECONDS[unit]}{unit}"


def humanize(duration: timedelta) -> str:
    """Return a duration in its two largest units: "18s", "4m 2s", "7h 12m", "3d 17h"."""
    seconds = abs(round(duration.total_seconds()))
    for large, small in (("d", "h"), ("h", "m"), ("m", "s")):
        count, remainder = divmod(seconds, UNIT_SECONDS[large])
        if count:
            remainder //= UNIT_SECONDS[small]
            return f"{count}{large} {remainder}{small}" if remainder else f"{count}{large}"
    return f"{seconds}s"


def humanize_short(duration: timedelta) -> str:
    """Return a duration in one unit, rounded down, for narrow columns: "18s", "4m", "7h", "3d"; weeks from "3w" on."""
    seconds = abs(int(duration.total_seconds()))
    for unit, size in (("w", 3 * 7 * 86_400), ("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // (7 * 86_400 if unit == 'w' else size)}{unit}"
    return f"{seconds}s"


def format_elapsed(duration: timedelta) -> str:
    """Return a measured time with useful precision: "210ms", "1.2s", "47s", "2m 10s"."""
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    return f"{seconds:.1f}s" if seconds < 9.95 else humanize(duration)


def _parse_error(text: str, problem: str, hint: str = _FORMAT_HINT) -> IntervalParseError:
    return IntervalParseError(f'"{truncate_for_message(text)}"{problem}', text, hint=hint)


def _reject_sign_and_decimals(text: str, match: re.Match[str]) -> None:
    if match["sign"] == "-":
        raise _parse_error(text, ": negative durations are not allowed.")
    if match["sign"]:
        raise _parse_error(text, " is not a duration.")
    if not match["number"].isdigit():
        raise _parse_error(text, ": decimals are not supported.", _suggest_whole_number(match))


def _parse_unit(text: str, match: re.Match[str]) -> int:
    unit = match["unit"]
    if not unit:
        hint = f'Write "{match["number"][:12]}s" for seconds, or another unit: m, h, d.'
        raise _parse_error(text, ": the time unit is missing.", hint)
    if unit.lower() in UNIT_SECONDS:
        return UNIT_SECONDS[unit.lower()]
    if re.fullmatch(r"[smhdSMHD](\s*\d+\s*[smhdSMHD])+", unit):
        raise _parse_error(text, ": only one unit is allowed.", 'Write for example "90m" instead of "1h30m".')
    raise _parse_error(text, f': "{truncate_for_message(unit)}" is not a time unit.', "Valid units are s, m, h, d.")


def _suggest_whole_number(match: re.Match[str]) -> str:
    """Return a hint that shows the duration as a whole number ("5.5m" -> "330s"), or the general hint."""
    unit = UNIT_SECONDS.get(match["unit"].lower())
    if unit is None or len(match["number"]) > 12:
        return _FORMAT_HINT
    seconds = float(match["number"].replace(",", ".")) * unit
    if seconds != int(seconds) or seconds == 0:
        return _FORMAT_HINT
    return f'Write a whole number and a unit, for example "{format_duration(timedelta(seconds=seconds))}".'
