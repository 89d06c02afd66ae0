"""Timestamps and time zones: RFC 3339 or microseconds <-> aware UTC datetime, IANA name -> ZoneInfo."""

import re
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import overload
from zoneinfo import ZoneInfo, available_timezones

from herdbeat.errors import TimeParseError, TimezoneError, truncate_for_message

FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Far from both ends of the calendar: no zone, jitter or interval of a hundred years leads past them."""

CALENDAR_START, CALENDAR_END = datetime(2, 1, 1, tzinfo=UTC), datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)
"""Stored times outside are cut: one odd row must not fail on every screen that shows it in its zone."""

_TIMESTAMP_PATTERN = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([Tt ](?P<time>[0-9]{2}:[0-9]{2})(?P<seconds>:[0-9]{2})?([.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<offset>[Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_MICROS = (CALENDAR_START - _EPOCH) // _MICROSECOND
_LAST_MICROS = (CALENDAR_END - _EPOCH) // _MICROSECOND
_FORMAT_HINT = 'Write for example "2026-04-01T09:00:00Z", or "2026-04-01T09:00:00+02:00".'
_ZONE_FORMAT_HINT = 'Write an IANA name such as "Europe/Berlin" or "UTC".'

# No dots, no leading slash, no NUL: ZoneInfo opens a file by this name, which must stay inside the zone directory.
_ZONE_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,3}")
# Files that some systems keep beside the zones: copies of the tree (those in `right/` count leap seconds), and links
# to the zone of the machine, which would mean another zone on the next machine.
_EXCLUDED_ZONE_PREFIXES = ("posix", "right/", "localtime", "Factory")


def parse_timestamp(text: str) -> datetime:
    """Parse RFC 3339 with its offset. Raises TimeParseError, which says what is missing, or that it is out of range.

    No part has a default: "09:00" without an offset would be another instant on every machine.
    """
    return require_supported_year(_parse_any_year(text), text)


def parse_stored_timestamp(text: str) -> datetime:
    """Parse what is stored already, or comes from another program: cut to the calendar, and never too far away."""
    return clamp_to_calendar(_parse_any_year(text))


def require_supported_year(moment: datetime, written: str) -> datetime:
    """Return the moment itself. Raises TimeParseError for one that is too near to the end of the calendar.

    Once, an `at` on the last day of the year 9999 was valid, and failed on every screen of a fleet east of Greenwich.
    """
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        hint = f"Write a time from {FIRST_YEAR} to {LAST_YEAR}."
        raise TimeParseError(f'"{truncate_for_message(written)}" is out of range.', written, hint=hint)
    return moment


def _parse_any_year(text: str) -> datetime:
    match = _TIMESTAMP_PATTERN.fullmatch(text.strip())
    if match is None:
        raise TimeParseError(f'"{truncate_for_message(text)}" is not a date and time.', text, hint=_FORMAT_HINT)
    _require_complete(text, match)
    micros = (match["fraction"] or "")[:6].ljust(6, "0")
    offset = "+00:00" if match["offset"] in "Zz" else match["offset"]
    try:
        normalized = f"{match['date']}T{match['time']}{match['seconds']}.{micros}{offset}"
        return datetime.fromisoformat(normalized).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        is_too_far = isinstance(error, OverflowError)
        why = "the date is out of range" if is_too_far else str(error).partition(":")[0].rstrip(".")
        raise TimeParseError(f'"{truncate_for_message(text)}": {why}.', text, hint=_FORMAT_HINT) from error


def clamp_to_calendar(moment: datetime) -> datetime:
    """Return the moment, or the end of the times that can be shown and computed with."""
    return min(max(moment, CALENDAR_START), CALENDAR_END)


def format_timestamp(moment: datetime) -> str:
    """Format an aware datetime as UTC with `Z`, with microseconds only if they are not zero."""
    # The fast path, because three timestamps are written for every beat. Nearly all of them are UTC already.
    if moment.tzinfo is UTC:
        return f"{moment.isoformat()[:-6]}Z"
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def format_optional_timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else format_timestamp(moment)


def parse_zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name. Raises TimezoneError, whose hint suggests the closest name."""
    normalized = name.strip()
    is_plain_name = _ZONE_NAME_PATTERN.fullmatch(normalized) and len(normalized) < 80
    if is_plain_name and not normalized.startswith(_EXCLUDED_ZONE_PREFIXES):
        try:
            return ZoneInfo(normalized)
        # Beside KeyError for an unknown name, zoneinfo raises OSError for a directory ("Europe") and ValueError for a
        # file that is not a zone.
        except (KeyError, ValueError, OSError):
            pass
    raise TimezoneError(f'"{truncate_for_message(name)}" is not a time zone.', name, hint=_zone_hint(normalized))


def _require_complete(text: str, match: re.Match[str]) -> None:
    words = {"time": "time of day", "seconds": "seconds", "offset": "offset"}
    missing = [word for part, word in words.items() if not match[part] and (part != "seconds" or match["time"])]
    if not missing:
        return
    what = " and the ".join(missing)
    verb = "is" if missing in (["time of day"], ["offset"]) else "are"
    example = f"{match['date']}T{match['time'] or '09:00'}{match['seconds'] or ':00'}"
    forms = f'"{example}{match["offset"]}"' if match["offset"] else f'"{example}Z" for UTC, or "{example}+02:00"'
    message = f'"{truncate_for_message(text)}": the {what} {verb} missing.'
    raise TimeParseError(message, text, hint=f"Write for example {forms}.")


def _zone_hint(normalized: str) -> str:
    if re.fullmatch(r"(UTC|GMT)?\s*[+-][0-9:]{1,5}", normalized, re.IGNORECASE):
        return f"A fixed offset is not a time zone, because it has no daylight saving time. {_ZONE_FORMAT_HINT}"
    guess = _closest_zone(normalized)
    return f'Did you mean "{guess}"?' if guess else _ZONE_FORMAT_HINT


def _closest_zone(normalized: str) -> str | None:
    """Return the most similar zone, by its whole name or by its city alone; None if none is similar enough."""
    if not normalized or len(normalized) > 80:
        return None
    wanted = normalized.lower().replace(" ", "_")
    # Sorted, because available_timezones() is a set: the suggestion must not depend on its order.
    zones = sorted(zone for zone in available_timezones() if not zone.startswith(("Etc/", *_EXCLUDED_ZONE_PREFIXES)))
    names = {zone.lower(): zone for zone in zones}
    cities = {zone.lower().rsplit("/", maxsplit=1)[-1]: zone for zone in zones}
    for known in (names, cities):
        if wanted in known:
            return known[wanted]
    if len(wanted) < 5:
        return None  # suggestions for abbreviations are wrong: CEST is similar to EST, which is seven hours off
    for known in (names, cities):
        if close := get_close_matches(wanted, known, n=1, cutoff=0.75):
            return known[close[0]]
    return None


@overload
def to_micros(moment: datetime) -> int: ...
@overload
def to_micros(moment: None) -> None: ...
def to_micros(moment: datetime | None) -> int | None:
    """Return whole microseconds since 1970, UTC: times as the tables of the ledger have them."""
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


@overload
def from_micros(micros: int) -> datetime: ...
@overload
def from_micros(micros: None) -> None: ...
def from_micros(micros: int | None) -> datetime | None:
    """Times at the ends of the calendar are cut (`clamp_to_calendar`). Raises OverflowError beyond them."""
    if micros is None:
        return None
    moment = _EPOCH + micros * _MICROSECOND  # half the time of timedelta(microseconds=…), six times a beat
    return moment if _FIRST_MICROS <= micros <= _LAST_MICROS else clamp_to_calendar(moment)


def from_any_micros(micros: int) -> datetime:
    """The same for screens: a damaged row shows an odd time, and does not hide the rows beside it."""
    return from_micros(min(max(micros, _FIRST_MICROS), _LAST_MICROS))
