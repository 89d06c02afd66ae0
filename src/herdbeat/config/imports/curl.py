"""A command line that is nothing but one call of curl, as an endpoint."""

import ipaddress
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from getopt import GetoptError, gnu_getopt
from urllib.parse import urlsplit

from herdbeat.config.imports.document import NoteKind
from herdbeat.config.nodes import PlainData
from herdbeat.domain.references import escape_references
from herdbeat.redaction import redact

_SHELL_SYNTAX_PATTERN = re.compile(r"[|;&<>`$(){}*\n]|(?<!\S)[#~]")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SHORT_OPTIONS = "fsSgN#LIX:H:d:m:o:A:"
_LONG_OPTIONS = (
    *(
        "fail",
        "fail-with-body",
        "silent",
        "show-error",
        "no-progress-meter",
        "globoff",
        "no-buffer",
        "location",
        "head",
    ),
    *("request=", "header=", "data=", "data-raw=", "json=", "max-time=", "output=", "user-agent=", "url="),
    *("retry=", "retry-delay=", "connect-timeout="),
)
_SAME_OPTIONS = {
    **dict.fromkeys(("-f", "--fail-with-body"), "--fail"),
    "-L": "--location",
    "-I": "--head",
    "-X": "--request",
    "-H": "--header",
    **dict.fromkeys(("-d", "--data-raw"), "--data"),
    "-m": "--max-time",
    "-o": "--output",
    "-A": "--user-agent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurlCall:
    """The keys of an endpoint, its headers apart because some are secret."""

    name: str
    keys: Mapping[str, PlainData]
    headers: Mapping[str, str]
    notes: tuple[tuple[NoteKind, str], ...] = ()
    private_hosts: tuple[str, ...] = ()


@dataclass(slots=True)
class _Options:
    """What the options of one call say. `fails` is curl's -f, `follows` its -L."""

    urls: list[str] = field(default_factory=list)
    method: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    data: str | None = None
    timeout: int | None = None
    retries: int = 0
    fails: bool = False
    follows: bool = False

    def set_data(self, value: str, *, is_json: bool) -> bool:
        """Take the body; False for a second one, and for one in a file."""
        if self.data is not None or value.startswith("@"):
            return False
        self.data = value
        if is_json:
            self.headers.setdefault("Content-Type", "application/json")
        return True

    def set_number(self, name: str, value: str) -> bool:
        """Take --max-time or --retry; False for one that is not a whole number."""
        if not re.fullmatch(r"[0-9]{1,5}", value):
            return False
        if name == "--retry":
            self.retries = int(value)
        else:
            self.timeout = int(value) or None
        return True


def parse_curl(command: str) -> CurlCall | None:
    """Return the call; None if the shell or an option does more than an endpoint can."""
    if _SHELL_SYNTAX_PATTERN.search(_remove_quoted(command)):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or words[0].rpartition("/")[2] != "curl":
        return None
    options = _read_options(words[1:])
    if options is None or len(options.urls) != 1:
        return None
    return _build_call(options)


def _remove_quoted(command: str) -> str:
    """Return the command without its single quotes, in which a shell replaces nothing."""
    return re.sub(r"'[^']*'", "", command)


def _read_options(words: list[str]) -> _Options | None:
    """Return the options of a call; None if an endpoint has nothing like one of them."""
    try:
        pairs, urls = gnu_getopt(words, _SHORT_OPTIONS, _LONG_OPTIONS)
    except GetoptError:
        return None
    options = _Options(urls=urls)
    is_known = [_set_option(options, _SAME_OPTIONS.get(name, name), value) for name, value in pairs]
    return options if all(is_known) else None


def _set_option(options: _Options, name: str, value: str) -> bool:
    """Take one option; False if its value is one that an endpoint cannot have."""
    match name:
        case "--fail":
            options.fails = True
        case "--location":
            options.follows = True
        case "--head" | "--request":
            options.method = value.upper() or "HEAD"
        case "--header" | "--user-agent":
            header, _, text = f"User-Agent:{value}".partition(":") if "agent" in name else value.partition(":")
            options.headers[header.strip()] = text.strip()
        case "--data" | "--json":
            return options.set_data(value, is_json=name == "--json")
        case "--max-time" | "--retry":
            return options.set_number(name, value)
        case "--output":
            return value == "/dev/null"
        case "--url":
            options.urls.append(value)
        case _:
            pass  # how much it prints, and how long it waits in between
    return options.method in ("", *_METHODS)


def _build_call(options: _Options) -> CurlCall | None:
    url = options.urls[0] if "://" in options.urls[0] else f"http://{options.urls[0]}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or redact(url) != url or parts.username:
        return None  # a password in the address stays with the command that had it
    keys: dict[str, PlainData] = {"url": escape_references(url)}
    headers = dict(options.headers)
    method = options.method or ("POST" if options.data is not None else "GET")
    if method != "GET":
        keys["method"] = method
    if options.data is not None:
        body = _read_json(options.data, headers)
        if body is None:
            return None  # a form or a text: endpoints send JSON
        keys["body"] = body
    if options.timeout is not None:
        keys["timeout"] = f"{options.timeout}s"
    if options.retries:
        keys["retry"] = {"attempts": options.retries + 1, "wait": "1s"}
    notes = [(NoteKind.CHANGED, text) for text in _describe_changes(options)]
    private = (parts.hostname,) if _is_private(parts.hostname) else ()
    if private:
        text = f"{parts.hostname} is an address of this machine or of a private network; egress.allow permits it."
        notes.append((NoteKind.HINT, text))
    name = "-".join([parts.hostname.removeprefix("www."), *parts.path.strip("/").split("/")[-1:]])
    return CurlCall(name=name, keys=keys, headers=headers, notes=tuple(notes), private_hosts=private)


def _read_json(data: str, headers: dict[str, str]) -> PlainData:
    """Return a body that is a JSON object or list, and remove the header that says so; None for any other."""
    kind = next((name for name in headers if name.lower() == "content-type"), None)
    if kind is None or "json" not in headers[kind].lower():
        return None
    try:
        body = json.loads(data)
    except ValueError:
        return None
    if not isinstance(body, dict | list) or "${" in data or "{prompt}" in data:
        return None
    del headers[kind]
    return body


def _describe_changes(options: _Options) -> list[str]:
    changes = []
    if not options.fails:
        changes.append("curl without -f succeeds whatever the server answers; an endpoint fails unless it is 2xx.")
    if not options.follows:
        changes.append("curl without -L follows no redirect; an endpoint follows up to five.")
    return changes


def _is_private(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False
