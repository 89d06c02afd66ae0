"""From values to HTML: the templates, what they can call, colours of terminals, static files with their hash."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from herdbeat.dashboard import labels
from herdbeat.dashboard.host import Visitor
from herdbeat.dashboard.notices import PageNotice
from herdbeat.dashboard.preferences import Preferences, format_clock
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.durations import format_duration, format_elapsed, humanize, humanize_short
from herdbeat.redaction import redact
from herdbeat.timestamps import format_timestamp, parse_stored_timestamp

MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class StaticFile(NamedTuple):
    content: bytes
    media_type: str


@cache
def load_static_files() -> Mapping[str, StaticFile]:
    folder = files("herdbeat.dashboard") / "static"
    return {
        each.name: StaticFile(each.read_bytes(), MEDIA_TYPES[f".{each.name.rpartition('.')[2]}"])
        for each in folder.iterdir()
        if f".{each.name.rpartition('.')[2]}" in MEDIA_TYPES
    }


@cache
def static_version() -> str:
    """One hash for all files, as a folder in their address: modules import each other by relative names."""
    digest = sha256()
    for name, file in sorted(load_static_files().items()):
        digest.update(name.encode() + b"\0" + file.content)
    return digest.hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFrame:
    """What every page has: who looks at it, when, from where, and what they have chosen.

    `path` is the address of the page itself, with its query: what a form returns to.
    """

    base: str
    path: str
    fleet: str
    visitor: Visitor
    preferences: Preferences
    now: datetime
    zone: tzinfo
    down_since: datetime | None = None
    overdue: int = 0
    """Schedules that are due while no scheduler runs, as far as they are counted."""
    is_running: bool = True
    notice: PageNotice | None = None
    origin: str = ""
    """Scheme and host of the address by which the visitor came."""

    @property
    def zone_name(self) -> str:
        return self.now.astimezone(self.zone).tzname() or "UTC"

    def static(self, name: str) -> str:
        return f"{self.base}/static/{static_version()}/{name}"

    def schedule_url(self, label: str) -> str:
        """Return the page of a schedule. Names may contain anything; the address is quoted."""
        target, slash, name = label.rpartition("/")
        target, name = (target, name) if slash else (name, DEFAULT_SCHEDULE_NAME)
        return f"{self.base}/schedules/{quote(target, safe='')}/{quote(name, safe='')}"

    def hook_url(self, target: str, name: str) -> str:
        """Return the whole address that takes the calls of a webhook schedule."""
        return f"{self.origin}{self.base}/hooks/{quote(target, safe='')}/{quote(name, safe='')}"

    def run_url(self, run_id: int) -> str:
        return f"{self.base}/runs/{format_short_id(run_id)}"

    def url(self, path: str, **query: object) -> str:
        """Return an address of ours. Parts of the query that are empty are left out."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{self.base}{path}{f'?{urlencode(given)}' if given else ''}"

    def clock(self, moment: datetime) -> str:
        return format_clock(moment, self.now, self.zone)

    def time(self, moment: datetime | None) -> Markup:
        """Return a time as the distance from now, with the absolute time as its title. A script keeps it current."""
        if moment is None:
            return Markup("—")
        text = format_distance(moment, self.now)
        attributes = f'datetime="{format_timestamp(moment)}" title="{escape(self.clock(moment))}" data-rel'
        return Markup(f"<time {attributes}>{text}</time>")  # noqa: S704 -- our own texts

    def at(self, moment: datetime | None) -> Markup:
        """Return a time as an absolute one."""
        if moment is None:
            return Markup("—")
        return Markup(f'<time datetime="{format_timestamp(moment)}">{escape(self.clock(moment))}</time>')  # noqa: S704


def format_distance(moment: datetime, now: datetime) -> str:
    """Return `in 18s`, `12m ago`, `now`."""
    distance = moment - now
    if abs(distance) < timedelta(seconds=1):
        return "now"
    return f"in {humanize(distance)}" if distance > timedelta(0) else f"{humanize(distance)} ago"


def format_dollars(usd: float | None) -> str:
    if usd is None:
        return ""
    return f"${usd:,.2f}" if usd >= 0.095 or usd == 0 else f"${usd:.2g}"


def format_count(number: int, word: str, plural: str = "") -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {plural or f'{word}s'}"


def first_line(text: str | None, limit: int = 160) -> str:
    """Return the first line with content, shortened. What agents and programs say is untrusted: it stays text."""
    line = next((each.strip() for each in (text or "").splitlines() if each.strip()), "")
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def source_word(source: Source) -> str:
    """Return a source as the terminal shows it: people give hints too, so `ai-interval` and `ai-oneshot` are a hint."""
    return "hint" if source in (Source.AI_INTERVAL, Source.AI_ONESHOT) else source.value


@cache
def get_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("herdbeat.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    callables: dict[str, Callable[..., object]] = {
        "duration": format_duration,
        "elapsed": format_elapsed,
        "seconds": lambda number: format_elapsed(timedelta(seconds=number)),
        "humanize": humanize,
        "humanize_short": humanize_short,
        "dollars": format_dollars,
        "count": format_count,
        "first_line": first_line,
        "short_id": format_short_id,
        "source_word": source_word,
        "redact": redact,
        "timestamp": parse_stored_timestamp,
        "pretty_json": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    }
    environment.filters.update(callables)
    environment.globals.update(
        states=labels.STATE_LABELS,
        statuses=labels.STATUS_LABELS,
        outcomes=labels.OUTCOME_LABELS,
        causes=labels.CAUSE_LABELS,
        node_states=labels.NODE_LABELS,
        sessions=labels.SESSION_LABELS,
    )
    return environment


def render(template: str, frame: PageFrame, **values: object) -> str:
    return get_environment().get_template(template).render(frame=frame, **values)


_SEQUENCE_PATTERN = re.compile(
    r"\x1b\[([0-9;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.?|[\x00-\x08\x0b-\x1f\x7f]"
)
_CLASSES = {
    1: "ansi-bold",
    2: "ansi-dim",
    31: "ansi-red",
    32: "ansi-green",
    33: "ansi-yellow",
    34: "ansi-blue",
    35: "ansi-magenta",
    36: "ansi-cyan",
    90: "ansi-dim",
    91: "ansi-red",
    92: "ansi-green",
    93: "ansi-yellow",
    94: "ansi-blue",
    95: "ansi-magenta",
    96: "ansi-cyan",
}


def render_ansi(text: str) -> Markup:
    """Return a line of output as HTML. What a program prints can never become markup."""
    parts: list[str] = []
    classes: list[str] = []
    position = 0
    for match in _SEQUENCE_PATTERN.finditer(text):
        parts.append(_wrap(text[position : match.start()], classes))
        position = match.end()
        if match[2] == "m":
            classes = _apply_codes(match[1], classes)
    parts.append(_wrap(text[position:], classes))
    return Markup("".join(parts))  # noqa: S704 -- every part is escaped


def _wrap(text: str, classes: list[str]) -> str:
    if not text:
        return ""
    escaped = str(escape(text))
    return f'<span class="{" ".join(classes)}">{escaped}</span>' if classes else escaped


def _apply_codes(codes: str, classes: list[str]) -> list[str]:
    for code in (int(each[:4] or 0) for each in codes.split(";")):
        if code == 0:
            classes = []
        elif code in _CLASSES and _CLASSES[code] not in classes:
            classes = [*classes, _CLASSES[code]]
    return classes
