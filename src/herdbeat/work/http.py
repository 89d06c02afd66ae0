"""Sends one HTTP request of a work source, and reads its answer up to a limit.

A source that an operator has written into the fleet's file may be anywhere, so the egress guard of endpoints is not
asked. Redirects are not followed: a token must not travel to another host.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from herdbeat.threads import host_lookup
from herdbeat.work.base import FailureCause, WorkSourceFailed

REQUEST_TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A page of 100 issues with bodies of 65,536 characters each has 26 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """Status, headers (names in any case) and the decoded JSON; None if the body is empty or not JSON."""

    status: int
    headers: Mapping[str, str]
    data: object


class HttpTransport:
    """The connections of one work source. Needs a running loop at the first request; `close` it at the end."""

    def __init__(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: object = None) -> HttpAnswer:
        """Return the answer, whatever its status. Raises WorkSourceFailed if there is none.

        A request without an answer may have been executed all the same.
        """
        data = None if body is None else json.dumps(body).encode()
        try:
            async with self._open().request(
                method,
                url,
                headers=headers,
                data=data,
                allow_redirects=False,
                proxy=_find_proxy(url),
                middlewares=(_OnlyOnce(),),
            ) as response:
                raw = await _read(response)
                return HttpAnswer(status=response.status, headers=response.headers, data=_parse(raw))
        except TimeoutError as error:
            raise WorkSourceFailed(_no_answer(url, "in time"), cause=FailureCause.TIMEOUT) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = f"({type(error).__name__})"  # not its text, which may hold the address with what is secret in it
            raise WorkSourceFailed(_no_answer(url, why), cause=FailureCause.UNAVAILABLE) from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Every request has a connection of its own: a kept one may have just been closed by the server.
            connector = aiohttp.TCPConnector(force_close=True, resolver=host_lookup())
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


class _OnlyOnce:
    """Middleware that sends a request once.

    aiohttp repeats a GET or DELETE whose connection breaks, also a new connection. A DELETE that was executed twice is
    answered with 404, which would look like a claim that was lost to somebody else.
    """

    def __init__(self) -> None:
        self._is_sent = False

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._is_sent:
            raise aiohttp.ClientConnectionError("not repeated")
        self._is_sent = True
        return await handler(request)


def _find_proxy(url: str) -> str | None:
    """Return the proxy of the environment for this address.

    Not by aiohttp's `trust_env`: it reads ~/.netrc, too, and refuses a request that has a token of its own.
    """
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    while chunk := await response.content.readany():
        raw += chunk
        if len(raw) > MAX_ANSWER_BYTES:
            message = f"{response.url.host} answered with more than {MAX_ANSWER_BYTES // 2**20} MB."
            raise WorkSourceFailed(message, cause=FailureCause.INVALID_ANSWER)
    return bytes(raw)


def _parse(raw: bytes) -> object:
    try:
        return json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        return None


def _no_answer(url: str, why: str) -> str:
    return f"{urlsplit(url).hostname} did not answer {why}."


# Foreign JSON: a value of another type counts as missing.


def as_dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
