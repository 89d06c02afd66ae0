"""Text formats that several keys share: names, durations, zones, hours, addresses."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time, timedelta
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import urlsplit

from herdbeat.config.diagnostics import ValidationError, find_closest_match, require_text
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.table import ListOf
from herdbeat.config.schema.types import FieldType, JsonSchema, ParsedText, Text
from herdbeat.domain.policies import AUTOMATIC_SPREAD, Jitter
from herdbeat.durations import MAX_DURATION, UNIT_SECONDS, parse_duration
from herdbeat.error_codes import Code
from herdbeat.errors import ExpressionError, IntervalParseError, did_you_mean_suffix, truncate_for_message
from herdbeat.redaction import redact, redact_store_url
from herdbeat.rules.expression import (
    ROOTS,
    RUN_FIELDS,
    Read,
    find_other_type,
    find_unknown_field,
    parse_expression,
)
from herdbeat.rules.rule import parse_factor
from herdbeat.store.location import UNREADABLE_URL_MESSAGE, URL_FORMAT_HINT
from herdbeat.timestamps import parse_timestamp, parse_zone

NAME_PATTERN = "[a-zA-Z0-9][a-zA-Z0-9_-]*"
_DURATION_PATTERN = r"^\s*[0-9]+\s*[smhdSMHD]\s*$"
_MAX_NAME_LENGTH = 100
_HOST_PATTERN = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_-]+)*")
_WEEK_SECONDS = 604_800  # seconds


class HoursWindow(NamedTuple):
    """A daily window as written; its zone comes from the schedule."""

    opens: time
    closes: time


def parse_name(text: str) -> str:
    """Return a valid name. Raises ValidationError with a name that is close and valid."""
    if re.fullmatch(NAME_PATTERN, text) and len(text) <= _MAX_NAME_LENGTH:
        return text
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode()  # "ä" without its dots
    suggestion = re.sub(r"[^a-zA-Z0-9_-]+", "-", plain).strip("-_")[:_MAX_NAME_LENGTH]
    also = f' For example "{suggestion}".' if suggestion else ""
    hint = f"Use at most {_MAX_NAME_LENGTH} ASCII letters, digits, - and _, starting with a letter or a digit.{also}"
    raise _format_error(text, "is not a valid name", hint, Code.INVALID_NAME)


def _format_error(text: str, problem: str, hint: str, code: Code = Code.INVALID_VALUE) -> ValidationError:
    return ValidationError(code, f'"{truncate_for_message(redact(text))}" {problem}.', hint)


def parse_hours(text: str) -> HoursWindow:
    """Parse "07:00-22:00"."""
    match = re.fullmatch(r"\s*(\d{1,2}):(\d{2})\s*[-–]\s*(\d{1,2}):(\d{2})\s*", text)
    if match is None:
        raise _invalid_hours_error(text, "")
    opens_hour, opens_minute, closes_hour, closes_minute = map(int, match.groups())
    if max(opens_hour, closes_hour) > 24 or max(opens_minute, closes_minute) > 59:
        raise _invalid_hours_error(text, " Hours go from 00:00 to 24:00.")
    opens = time(opens_hour % 24, opens_minute)
    closes = time(closes_hour % 24, closes_minute)
    if opens == closes:
        raise _invalid_hours_error(text, " Start and end must differ; remove the key for the whole day.")
    return HoursWindow(opens, closes)


def _invalid_hours_error(text: str, more: str) -> ValidationError:
    return _format_error(text, "is not a time range", f'Write for example "07:00-22:00".{more}')


@dataclass(frozen=True, slots=True)
class ExpressionType(FieldType[str]):
    """A condition over the values that `roots` name. It is checked here and kept as it was written.

    `run_fields` are what a run has where it is evaluated.
    """

    roots: tuple[str, ...]
    run_fields: tuple[str, ...] = RUN_FIELDS
    description: str = "an expression"

    def read(self, node: ConfigNode) -> str:
        if isinstance(node.value, bool):
            return str(node.value).lower()
        text = require_text(node, self.description)
        if node.style == ">" and not text.strip():
            key = (node.location.path or "when").rpartition(".")[2]
            message = "YAML reads > as the beginning of a text on several lines."
            hint = f"Put it into single quotes, with what it compares: {key}: '{self.roots[0]}.value > 5'"
            raise ValidationError(Code.YAML_SYNTAX, message, hint)
        expression = parse_expression(text, self.roots)
        if what := find_other_type(expression.root):
            message = f"The expression is {what}, and never true or false."
            raise ExpressionError(message, offset=0, hint=f"Compare it: {self.roots[0]}.queue_depth > 100")
        for read in expression.places:
            self._check_field(text, read)
        return text

    def _check_field(self, text: str, read: Read) -> None:
        """A field that no run can have would leave the expression undecided for ever."""
        found = find_unknown_field(read, self.run_fields)
        if found is not None:
            field, known = found
            message = f'{read.root} has no field "{field}"{did_you_mean_suffix(find_closest_match(field, known))}'
            hint = f"There {'are' if len(known) > 1 else 'is'} {', '.join(known)}."
            raise ExpressionError(message, offset=max(0, text.find(field)), width=len(field), hint=hint)

    def to_json_schema(self) -> JsonSchema:
        return {"type": ["string", "boolean"], "examples": [f"{self.roots[0]}.queue_depth > 100"]}


def parse_pace(text: str) -> timedelta | float:
    """Parse the interval of a rule: a duration, or a factor such as "2x"."""
    factor = parse_factor(text)
    if factor is None and re.fullmatch(r"\s*[0-9.]+\s*x\s*", text):
        message = f'"{text.strip()}" is not a factor between 1 and 100.'
        raise ValidationError(Code.INVALID_VALUE, message, 'Write "2x" for twice the pace in force.')
    return factor or parse_duration(text)


def parse_jitter(text: str) -> Jitter:
    """Parse "10%", "0", "30s" or "auto"."""
    written = text.strip()
    if written == "auto":
        return AUTOMATIC_SPREAD
    if written in ("0", "0%"):
        return Jitter()
    if match := re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?)\s*%", written):
        share = float(match[1]) / 100
        if share <= 1:
            return Jitter(share=share)
        raise ValidationError(Code.INVALID_VALUE, f'"{written}" is more than 100%.', "Write 0% to 100%.")
    try:
        return Jitter(span=parse_duration(written))
    except IntervalParseError as error:
        hint = 'Write a percentage such as "10%", a duration such as "30s", or auto.'
        raise _format_error(text, "is not a valid jitter", hint) from error


def parse_long_duration(text: str) -> timedelta:
    """Parse a duration as herdctl writes `session.timeout`: decimals and weeks are allowed."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*w\s*|\s*(\d{1,9}\.\d{1,6})\s*([smhd])\s*", text, re.IGNORECASE)
    if match is None:
        return parse_duration(text)
    weeks, number, unit = match.groups()
    seconds = float(weeks or number) * (UNIT_SECONDS[unit.lower()] if unit else _WEEK_SECONDS)
    if not 0 < seconds <= MAX_DURATION.total_seconds():
        message = f'"{truncate_for_message(text)}" is out of range.'
        raise IntervalParseError(message, text, hint='Write for example "24h" or "1w".')
    return timedelta(seconds=seconds)


def parse_url(text: str) -> str:
    """Return the URL without blanks around it. Raises ValidationError if it is none of http or https."""
    try:
        parts = urlsplit(text.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    if not is_address or re.search(r"[\s\\]", text.strip()):
        hint = 'Start it with http:// or https://, for example "https://api.example.com/health".'
        raise _format_error(text, "is not a URL", hint)
    return text.strip()


def make_pattern_parser(pattern: str, problem: str, hint: str) -> Callable[[str], str]:
    """Return a parser of texts that match one pattern; blanks around them are removed."""

    def parse(text: str) -> str:
        if re.fullmatch(pattern, text.strip()):
            return text.strip()
        raise _format_error(text, problem, hint)

    return parse


_STORE_PATTERN = re.compile("(sqlite:|postgres(ql)?://)/*[^/].*")


def parse_store(text: str) -> str:
    """Return the URL of a store. Raises ValidationError, whose message has no password."""
    # What has an @ or a = is not repeated in the message: it may hold a password, and so may what looks like its port.
    store = text.strip()
    if not _STORE_PATTERN.fullmatch(store):
        named = "This value" if re.search("[@=]", store) else f'"{truncate_for_message(text)}"'
        hint = 'Write "sqlite:PATH" or "postgresql://user@host/database".'
        raise ValidationError(Code.INVALID_VALUE, f"{named} is not a store URL.", hint)
    if not store.startswith("sqlite:") and redact_store_url(store) is None:
        raise ValidationError(Code.INVALID_VALUE, UNREADABLE_URL_MESSAGE, URL_FORMAT_HINT)
    return store


parse_call = make_pattern_parser(
    r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*",
    "is not a function path",
    'Write "module:function", for example "myapp.jobs:tidy".',
)
parse_variable = make_pattern_parser(
    "[A-Za-z_][A-Za-z0-9_]*",
    "is not the name of an environment variable",
    "Write only the name, for example GITHUB_TOKEN.",
)
parse_repo = make_pattern_parser("[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", "is not a repository name", 'Write "owner/name".')


parse_memory = make_pattern_parser(
    r"(?i)[0-9]+(\.[0-9]+)?\s*([kmgt]i?)?b?", "is not a memory size", 'Write for example "512m" or "2g".'
)


def parse_network(text: str) -> str:
    """Parse an address, an address range or a host name name that requests may reach although it is private."""
    if _HOST_PATTERN.fullmatch(text) and not re.fullmatch(r"[0-9.]+", text):
        return text
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError as error:
        hint = 'Write for example "10.0.0.0/8" or "db.internal".'
        raise _format_error(text, "is neither an address range nor a host name", hint) from error


def parse_address(text: str) -> str:
    """Parse one IP address: a range would let every machine in it speak for others."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise _format_error(text, "is not an IP address", 'Write for example "127.0.0.1".') from error


def parse_base_path(text: str) -> str:
    if not _BASE_PATH_PATTERN.fullmatch(text):
        raise _format_error(text, "is not a path", 'Write for example "/ops", without a slash at the end.')
    return text


def parse_header_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", text):
        raise _format_error(text, "is not the name of a header", 'Write for example "X-Forwarded-Email".')
    return text


_BASE_PATH_PATTERN = re.compile(r"(/[A-Za-z0-9._~-]+){1,10}")
ADDRESS = ParsedText("an IP address", parse_address, "", ("127.0.0.1",))
BASE_PATH_TEXT = ParsedText("a path", parse_base_path, "", ("/ops",))
HEADER_NAME = ParsedText("the name of a header", parse_header_name, "", ("X-Forwarded-Email",))
NAME = ParsedText("a string", parse_name, f"^{NAME_PATTERN}$")
PACE = ParsedText("a duration, or a factor such as 2x", parse_pace, "", ("30s", "2x"), accepts_numbers=True)
DURATION = ParsedText("a duration", parse_duration, _DURATION_PATTERN, ("30s", "5m", "1h", "1d"), accepts_numbers=True)
LONG_DURATION = ParsedText("a duration", parse_long_duration, "", ("24h", "1w"), accepts_numbers=True)
TIMESTAMP = ParsedText(
    "a date and time with UTC offset", parse_timestamp, "", ("2026-12-01T09:00:00+01:00",), accepts_numbers=True
)
ZONE = ParsedText("a time zone", parse_zone, "", ("Europe/Berlin", "UTC"))
HOURS = ParsedText(
    "a time range", parse_hours, r"^\d{1,2}:\d{2}\s*[-–]\s*\d{1,2}:\d{2}$", ("07:00-22:00",), accepts_numbers=True
)
JITTER = ParsedText("a percentage, a duration or auto", parse_jitter, "", ("10%", "30s", "auto"), accepts_numbers=True)
URL = ParsedText("an http(s) URL", parse_url, "", ("https://api.example.com/health",))
STORE = ParsedText("a store URL", parse_store, "", ("sqlite:.herdbeat/herdbeat.db",))
CALL = ParsedText("a function, as module:function", parse_call, "", ("myapp.jobs:tidy",))
VARIABLE_NAME = ParsedText("the name of an environment variable", parse_variable, "^[A-Za-z_][A-Za-z0-9_]*$")
NETWORK = ParsedText("an address range or a host name", parse_network, "", ("10.0.0.0/8", "db.internal"))
MEMORY = ParsedText("a memory size", parse_memory, "", ("512m", "2g"), accepts_numbers=True)
REPO = ParsedText("a repository, as owner/name", parse_repo, "^[^/]+/[^/]+$")
TEXT = Text()
PATH = Text("a path")
EXPRESSION = Text("an expression")
RULE_EXPRESSION = ExpressionType(ROOTS)
RESULT_EXPRESSION = ExpressionType(("response", "run"), run_fields=("status_code",))
EVENT_EXPRESSION = ExpressionType(("payload", "headers"))
TEXTS = ListOf(TEXT)
ARGV = ListOf(
    Text("a string", allows_empty=True), at_least=1, hint="Write the program and its arguments as a list: [prog, arg]."
)
