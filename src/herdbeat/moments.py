"""Moments and zones as people write them: RFC 3339 <-> aware UTC datetime, an IANA name -> ZoneInfo."""

import re
from datetime import UTC, datetime
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from herdbeat.errors import TimeParseError, TimezoneError, shown

_WRITTEN = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([Tt ](?P<time>[0-9]{2}:[0-9]{2})(?P<seconds>:[0-9]{2})?([.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<offset>[Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
)
_FORM = 'Write for example "2026-04-01T09:00:00Z", or "2026-04-01T09:00:00+02:00".'
_ZONE_FORM = 'Write an IANA name such as "Europe/Berlin" or "UTC".'

# No dots, no leading slash, no NUL: a name can never leave the folder of zones.
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,3}")
# Files that some systems keep beside the zones: copies of the tree (in `right/` the clocks even count leap
# seconds) and links to whatever the machine is set to, which would mean another zone on the next machine.
_NOT_ZONES = ("posix", "right/", "localtime", "Factory")


def parse_moment(text: str) -> datetime:
    """Read RFC 3339 with its offset. Raises TimeParseError, which says what is missing.

    Nothing is guessed: "09:00" without an offset is another instant on every machine.
    """
    parts = _WRITTEN.fullmatch(text.strip())
    if parts is None:
        raise TimeParseError(f'"{shown(text)}" is not a date and time.', text, hint=_FORM)
    _refuse_gaps(text, parts)
    micros = (parts["fraction"] or "")[:6].ljust(6, "0")
    offset = "+00:00" if parts["offset"] in "Zz" else parts["offset"]
    try:
        written = f"{parts['date']}T{parts['time']}{parts['seconds']}.{micros}{offset}"
        return datetime.fromisoformat(written).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimeParseError(f'"{shown(text)}": {_reason(error)}.', text, hint=_FORM) from error


def format_moment(moment: datetime) -> str:
    """Write an aware moment as UTC with `Z`: whole seconds, and microseconds only when there are any."""
    if moment.tzinfo is UTC:
        return f"{moment.isoformat()[:-6]}Z"  # all moments inside are: three of them are written for every beat
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def parse_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name. Raises TimezoneError, which guesses what was meant."""
    written = name.strip()
    if _ZONE_NAME.fullmatch(written) and not written.startswith(_NOT_ZONES) and len(written) < 80:
        try:
            return ZoneInfo(written)
        # Beside "not found", zoneinfo lets through what the file system says: a folder, a file that is no zone.
        except (KeyError, ValueError, OSError):
            pass
    raise TimezoneError(f'"{shown(name)}" is not a time zone.', name, hint=_zone_hint(written))


def _refuse_gaps(text: str, parts: re.Match[str]) -> None:
    missing = [
        word
        for word, part in (("time of day", "time"), ("seconds", "seconds"), ("offset", "offset"))
        if not parts[part] and (part != "seconds" or parts["time"])
    ]
    if not missing:
        return
    what = " and the ".join(missing)
    verb = "is" if missing in (["time of day"], ["offset"]) else "are"
    example = f"{parts['date']}T{parts['time'] or '09:00'}{parts['seconds'] or ':00'}"
    offset = parts["offset"] or "Z"
    hint = f'Write for example "{example}{offset}"'
    if not parts["offset"]:
        hint += f' for UTC, or "{example}+02:00"'
    raise TimeParseError(f'"{shown(text)}": the {what} {verb} missing.', text, hint=hint + ".")


def _reason(error: Exception) -> str:
    if isinstance(error, OverflowError):
        return "the calendar does not reach that far"
    return str(error).split(":", maxsplit=1)[0].rstrip(".")


def _zone_hint(written: str) -> str:
    if re.fullmatch(r"(UTC|GMT)?\s*[+-][0-9:]{1,5}", written, re.IGNORECASE):
        return f"A fixed offset is not a time zone, it knows no summer time. {_ZONE_FORM}"
    guess = _nearest_zone(written)
    return f'Did you mean "{guess}"?' if guess else _ZONE_FORM


def _nearest_zone(written: str) -> str | None:
    """The zone that was probably meant: by its whole name, or by its city alone."""
    if not written or len(written) > 80:
        return None
    wanted = written.lower().replace(" ", "_")
    # Sorted, so that the answer does not depend on the order of a set.
    zones = sorted(zone for zone in available_timezones() if not zone.startswith(("Etc/", *_NOT_ZONES)))
    names = {zone.lower(): zone for zone in zones}
    cities = {zone.lower().rsplit("/", maxsplit=1)[-1]: zone for zone in zones}
    for known in (names, cities):
        if wanted in known:
            return known[wanted]
    if len(wanted) < 5:
        return None  # between abbreviations every guess is a wrong one: CEST is near EST, and seven hours off
    for known in (names, cities):
        if close := get_close_matches(wanted, known, n=1, cutoff=0.75):
            return known[close[0]]
    return None
