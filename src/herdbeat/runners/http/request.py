"""Builds the request of an endpoint for one beat, and the request that follows a redirect. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from aiohttp import encode_basic_auth
from yarl import URL

from herdbeat import __version__
from herdbeat.domain.target import EndpointSpec

PROMPT_PLACEHOLDER = "{prompt}"
_USER_AGENT = f"herdbeat/{__version__}"
_PRINTABLE_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "user-agent"})
"""The only headers that a redirect to another origin keeps. A deny list of secret headers would miss custom ones."""

_RESERVED_HEADERS = frozenset(
    {"idempotency-key", "content-length", "transfer-encoding", "connection", "upgrade", "expect"}
)
"""Headers that a file cannot set: the key of the beat, and the framing of the request. With a Content-Length larger
than the body, for example, the endpoint would wait for the rest until the deadline."""

_FORBIDDEN_CHARS_PATTERN = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
"""A line break would end the header, and begin another one or the next request."""

_DEFAULT_HEADERS = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
_METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods for which no Content-Length means that there is no body. Others say that theirs is empty."""


class TwoCredentials(ValueError):
    """The URL has a user name, and the headers have Authorization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. URL and headers may contain secrets, so neither is in its repr.

    The host that is called, the one that the guard checks and the one in the request are all of one parsed URL: two
    parsers can disagree about the host of a URL.
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

    def to_bytes(self) -> bytes:
        """Return what is sent. Raises ValueError for characters that HTTP does not allow, and TwoCredentials."""
        headers = {"Host": self.url.host_port_subcomponent or ""} | _DEFAULT_HEADERS
        if self.url.raw_user is not None or self.url.raw_password is not None:
            headers["Authorization"] = encode_basic_auth(self.url.user or "", self.url.password or "", "latin1")
        known = {name.lower(): name for name in headers}
        for name, value in self.headers.items():
            if name.lower() == "authorization" and "authorization" in known:
                raise TwoCredentials
            headers[known.get(name.lower(), name)] = value
        if self.body is not None or self.method not in _METHODS_WITHOUT_BODY:
            headers["Content-Length"] = str(len(self.body or b""))
        headers["Connection"] = "close"
        lines = [f"{self.method} {self.url.raw_path_qs} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if _FORBIDDEN_CHARS_PATTERN.search("".join(lines)):
            raise ValueError("forbidden characters")
        return "\r\n".join((*lines, "", "")).encode() + (self.body or b"")

    def follow_redirect(self, location: str) -> "HttpRequest":
        """Return the same request for the location of a redirect. Raises ValueError if that is not an HTTP URL."""
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
    # The id of a delivery comes from outside and may contain characters that are not allowed in headers.
    headers["Idempotency-Key"] = quote(beat_key, safe=_PRINTABLE_ASCII)
    return HttpRequest(method=spec.method, url=URL(spec.url), headers=headers, body=body)


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port  # yarl's origin() says that https://a and https://a:443 differ


def _fill_prompt(value: object, prompt: str) -> object:
    """Return the body with the prompt inserted, in one pass: a prompt that contains {prompt} itself stays as it is."""
    if isinstance(value, str):
        return value.replace(PROMPT_PLACEHOLDER, prompt)
    if isinstance(value, Mapping):
        return {key: _fill_prompt(item, prompt) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_prompt(item, prompt) for item in value]
    return value
