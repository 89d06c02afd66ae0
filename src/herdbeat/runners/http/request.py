"""What is sent: the request of an endpoint for one beat, and what of it may follow a redirect. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from yarl import URL

from herdbeat import __version__
from herdbeat.domain.target import EndpointSpec

PROMPT_PLACEHOLDER = "{prompt}"
_USER_AGENT = f"herdbeat/{__version__}"
_PRINTABLE_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "user-agent"})
"""All that another origin gets to see. A list of secret names would miss the X-Internal-Pass of somebody's gateway."""

_RESERVED_HEADERS = frozenset(
    {"idempotency-key", "content-length", "transfer-encoding", "connection", "upgrade", "expect"}
)
"""Headers that a file cannot set: the key of the beat, and how the request is put on the wire. A Content-Length that
is larger than the body makes the endpoint wait for the rest until the deadline."""

_SECRET_NAME_PATTERN = re.compile("auth|cookie|token|secret|key|passw|credential|signature", re.IGNORECASE)
_MIN_SECRET_CHARS = 8
"""Shorter values are not hidden: replacing every "1" would make nonsense of an answer and protect nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. The address and the headers may hold secrets, so neither is shown.

    The address is yarl's, as the connection's is: two readers of one address can disagree about its host, and the guard
    would look at the one while the other is called.
    """

    method: str
    url: URL = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        return self.url.raw_host or ""

    @property
    def can_follow_redirects(self) -> bool:
        return self.method in ("GET", "HEAD")

    def follow_redirect(self, location: str) -> "HttpRequest":
        """The same request to where an answer points. Raises ValueError if that is no address of HTTP."""
        url = self.url.join(URL(location))
        if url.scheme not in ("http", "https") or not url.raw_host:
            raise ValueError("not an address of HTTP")
        if _origin(url) == _origin(self.url):
            return replace(self, url=url)
        kept = {name: value for name, value in self.headers.items() if name.lower() in _CROSS_ORIGIN_HEADERS}
        return replace(self, url=url.with_user(None), headers=kept)


def build_request(spec: EndpointSpec, prompt: str, beat_key: str) -> HttpRequest:
    """The request for one beat. What the file says beats our defaults; the beat's own key beats both.

    Raises ValueError if there is no such request: an address that yarl refuses, a body with a number that is none.
    """
    body = None if spec.body is None else json.dumps(_fill_prompt(spec.body, prompt), allow_nan=False).encode()
    defaults = {"User-Agent": _USER_AGENT} | ({} if body is None else {"Content-Type": "application/json"})
    custom = {name: value for name, value in spec.headers.items() if name.lower() not in _RESERVED_HEADERS}
    known = {name.lower() for name in custom}
    headers = {name: value for name, value in defaults.items() if name.lower() not in known} | custom
    # The id of a delivery comes from outside, and may hold letters that no header takes.
    headers["Idempotency-Key"] = quote(beat_key, safe=_PRINTABLE_ASCII)
    return HttpRequest(method=spec.method, url=URL(spec.url), headers=headers, body=body)


def find_secrets(headers: Mapping[str, str]) -> tuple[bytes, ...]:
    """Texts that must not be stored, should the endpoint say them back to us: the longest first."""
    found: set[str] = set()
    for name, value in headers.items():
        if _SECRET_NAME_PATTERN.search(name):
            found |= {value, value.rpartition(" ")[2]}  # "Bearer abc" may come back as "abc"
    long = [each.encode() for each in found if len(each) >= _MIN_SECRET_CHARS]
    return tuple(sorted(long, key=len, reverse=True))


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port  # yarl's own origin() takes https://a and https://a:443 for two


def _fill_prompt(value: object, prompt: str) -> object:
    """The body with the prompt in its places, in one pass: a prompt that says {prompt} itself stays as it is."""
    if isinstance(value, str):
        return value.replace(PROMPT_PLACEHOLDER, prompt)
    if isinstance(value, Mapping):
        return {key: _fill_prompt(item, prompt) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_prompt(item, prompt) for item in value]
    return value
