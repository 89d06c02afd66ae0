"""The written forms that keys share: names, durations, zones, hours, addresses."""

import ipaddress
import re
from collections.abc import Callable
from datetime import time, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from herdbeat.codes import Code
from herdbeat.config.report import Misfit
from herdbeat.config.shapes import Parsed, Text
from herdbeat.config.tables import ListOf
from herdbeat.domain.policies import Jitter
from herdbeat.durations import LONGEST, UNITS, parse_duration
from herdbeat.errors import IntervalParseError, shown
from herdbeat.moments import parse_moment, parse_zone
from herdbeat.store.places import UNREADABLE, URL_FORM, shown_url

NAME_FORM = "[a-zA-Z0-9][a-zA-Z0-9_-]*"
_DURATION_FORM = r"^\s*[0-9]+\s*[smhdSMHD]\s*$"
_LONGEST_NAME = 100
_WEEK = 604_800  # seconds


class Hours(NamedTuple):
    """A daily window as written; its zone comes from the schedule."""

    opens: time
    closes: time


def parse_name(text: str) -> str:
    if re.fullmatch(NAME_FORM, text) and len(text) <= _LONGEST_NAME:
        return text
    suggestion = re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-_")[:_LONGEST_NAME]
    also = f' For example "{suggestion}".' if suggestion else ""
    raise Misfit(
        Code.INVALID_NAME,
        f'"{shown(text)}" cannot be a name.',
        hint=f"Use letters, digits, - and _, starting with a letter or a digit.{also}",
    )


def parse_hours(text: str) -> Hours:
    """Read "07:00-22:00"."""
    found = re.fullmatch(r"\s*(\d{1,2}):(\d{2})\s*[-–]\s*(\d{1,2}):(\d{2})\s*", text)
    if found is None:
        raise _no_hours(text, "")
    opens_hour, opens_minute, closes_hour, closes_minute = map(int, found.groups())
    if max(opens_hour, closes_hour) > 24 or max(opens_minute, closes_minute) > 59:
        raise _no_hours(text, " Hours go from 00:00 to 24:00.")
    opens = time(opens_hour % 24, opens_minute)
    closes = time(closes_hour % 24, closes_minute)
    if opens == closes:
        raise _no_hours(text, " The two must differ; leave the key out for the whole day.")
    return Hours(opens, closes)


def _no_hours(text: str, more: str) -> Misfit:
    return Misfit(
        Code.INVALID_VALUE,
        f'"{shown(text)}" is not a window of hours.',
        hint=f'Write for example "07:00-22:00".{more}',
    )


def parse_jitter(text: str) -> Jitter:
    """Read "10%", "0" or "30s"."""
    written = text.strip()
    if written in ("0", "0%"):
        return Jitter()
    if found := re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?)\s*%", written):
        share = float(found[1]) / 100
        if share <= 1:
            return Jitter(share=share)
        raise Misfit(Code.INVALID_VALUE, f'"{written}" is more than the whole.', hint="Write 0% to 100%.")
    try:
        return Jitter(span=parse_duration(written))
    except IntervalParseError as error:
        hint = 'Write a share such as "10%", or a duration such as "30s".'
        raise Misfit(Code.INVALID_VALUE, f'"{shown(text)}" is not a jitter.', hint=hint) from error


def parse_long_duration(text: str) -> timedelta:
    """A duration as herdctl writes `session.timeout`: decimals and weeks are allowed."""
    found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*w\s*|\s*(\d{1,9}\.\d{1,6})\s*([smhd])\s*", text, re.IGNORECASE)
    if found is None:
        return parse_duration(text)
    weeks, number, unit = found.groups()
    seconds = float(weeks or number) * (UNITS[unit.lower()] if unit else _WEEK)
    if not 0 < seconds <= LONGEST.total_seconds():
        raise IntervalParseError(f'"{shown(text)}" is out of range.', text, hint='Write for example "24h" or "1w".')
    return timedelta(seconds=seconds)


def parse_url(text: str) -> str:
    try:
        parts = urlsplit(text.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    if not is_address or re.search(r"[\s\\]", text.strip()):
        raise Misfit(
            Code.INVALID_VALUE,
            f'"{shown(text)}" is not an address.',
            hint='Write it with its scheme, for example "https://api.example.com/health".',
        )
    return text.strip()


def form(pattern: str, complaint: str, hint: str) -> Callable[[str], str]:
    """The reader of texts that one pattern describes; blanks around them do not count."""

    def parse(text: str) -> str:
        if re.fullmatch(pattern, text.strip()):
            return text.strip()
        raise Misfit(Code.INVALID_VALUE, f'"{shown(text)}" {complaint}.', hint=hint)

    return parse


_STORE = re.compile("(sqlite:|postgres(ql)?://)/*[^/].*")


def parse_store(text: str) -> str:
    """An address with an @ is not repeated: it may hold a password, and what looks like its port a part of that."""
    store = text.strip()
    if not _STORE.fullmatch(store):
        named = "What is written here" if "@" in store else f'"{shown(text)}"'
        hint = 'Write "sqlite:PATH" or "postgresql://user@host/database".'
        raise Misfit(Code.INVALID_VALUE, f"{named} is not a store.", hint=hint)
    if not store.startswith("sqlite:") and shown_url(store) is None:
        raise Misfit(Code.INVALID_VALUE, UNREADABLE, hint=URL_FORM)
    return store


parse_call = form(
    r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*",
    "does not name a function",
    'Write "module:function", for example "myapp.jobs:tidy".',
)
parse_variable = form(
    "[A-Za-z_][A-Za-z0-9_]*",
    "is not the name of an environment variable",
    "Write the name alone, for example GITHUB_TOKEN.",
)
parse_repo = form("[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", "is not a repository", 'Write "owner/name".')


def parse_network(text: str) -> str:
    """An address, a range of addresses or a host name that requests may reach although it is private."""
    if re.fullmatch(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_-]+)*", text) and not _numeric(text):
        return text
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError as error:
        raise Misfit(
            Code.INVALID_VALUE,
            f'"{shown(text)}" is neither a range of addresses nor a host.',
            hint='Write for example "10.0.0.0/8" or "db.internal".',
        ) from error


def _numeric(text: str) -> bool:
    return re.fullmatch(r"[0-9.]+", text) is not None


NAME = Parsed("a text", parse_name, f"^{NAME_FORM}$")
DURATION = Parsed("a duration", parse_duration, _DURATION_FORM, ("30s", "5m", "1h", "1d"), takes_numbers=True)
LONG_DURATION = Parsed("a duration", parse_long_duration, "", ("24h", "1w"), takes_numbers=True)
MOMENT = Parsed("a date and time with offset", parse_moment, "", ("2026-12-01T09:00:00+01:00",), takes_numbers=True)
ZONE = Parsed("a time zone", parse_zone, "", ("Europe/Berlin", "UTC"))
HOURS = Parsed(
    "a window of hours", parse_hours, r"^\d{1,2}:\d{2}\s*[-–]\s*\d{1,2}:\d{2}$", ("07:00-22:00",), takes_numbers=True
)
JITTER = Parsed("a share or a duration", parse_jitter, "", ("10%", "30s"), takes_numbers=True)
URL = Parsed("an http(s) address", parse_url, "", ("https://api.example.com/health",))
STORE = Parsed("a store", parse_store, "", ("sqlite:.herdbeat/herdbeat.db",))
CALL = Parsed("a function, as module:function", parse_call, "", ("myapp.jobs:tidy",))
VARIABLE = Parsed("the name of an environment variable", parse_variable, "^[A-Za-z_][A-Za-z0-9_]*$")
NETWORK = Parsed("a range of addresses or a host", parse_network, "", ("10.0.0.0/8", "db.internal"))
REPO = Parsed("a repository, as owner/name", parse_repo, "^[^/]+/[^/]+$")
TEXT = Text()
PATH = Text("a path")
EXPRESSION = Text("an expression")
TEXTS = ListOf(TEXT)
ARGV = ListOf(
    Text("a text", may_be_empty=True), at_least=1, advice="Write program and arguments as a list: [prog, arg]."
)
