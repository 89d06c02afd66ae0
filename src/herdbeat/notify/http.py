"""Sends one HTTP request of a channel, and reads little of the answer.

The operator has written the address into the fleet's file, so it may be anywhere, and the egress guard of endpoints is
not asked. Redirects are not followed: the server at that address must not choose another one for us.
"""

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from herdbeat.notify.base import DeliveryFailed
from herdbeat.threads import call_in_thread, host_lookup

MAX_ANSWER_BYTES = 64 * 1024
"""The rest of an answer is not read: a receiver may send bytes for ever."""

MAX_RETRY_AFTER = timedelta(days=1)
_SECONDS_PATTERN = re.compile("[0-9]{1,9}")
_GONE = 410
_RECEIVER_BUSY = (408, 425, 429)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPost:
    """What is sent. `timeout` is for all of it. Without `wants_answer` only the status of the answer counts."""

    url: str = field(repr=False)
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    method: str = "POST"
    timeout: timedelta
    wants_answer: bool = False

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "the receiver"


class HttpSender:
    """The connections of all channels. Needs a running loop at the first request; `close` it at the end."""

    def __init__(self) -> None:
        self._session: Any = None

    async def post(self, post: HttpPost) -> object:
        """Return the decoded JSON of a good answer that is wanted; None if it is not JSON. Raises DeliveryFailed."""
        # A fleet that sends nothing does not load it. Loading may take seconds, and beats do not wait for it.
        aiohttp = await call_in_thread(importlib.import_module, "aiohttp")
        if self._session is None:
            # Every request has a connection of its own: a kept one may have just been closed by the server.
            connector = aiohttp.TCPConnector(force_close=True, limit=0, resolver=host_lookup())
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.request(
                post.method,
                post.url,
                data=post.body,
                headers={"User-Agent": "herdbeat", **post.headers},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=post.timeout.total_seconds()),
            ) as response:
                _require_success(post.host, response.status, response.headers.get("Retry-After", ""))
                raw = await read_answer(response.content) if post.wants_answer else b""
                response.close()
        except TimeoutError as error:
            seconds = post.timeout.total_seconds()
            raise DeliveryFailed(f"{post.host} did not answer within {seconds:g} seconds.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Not the text of the error, which may hold the address with what is secret in it.
            raise DeliveryFailed(f"{post.host} cannot be reached ({type(error).__name__}).") from error
        try:
            return json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            return None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def read_answer(stream: Any) -> bytes:
    """Read to the end, or as much as is ever read. One read returns what has arrived, perhaps half of the answer."""
    raw = bytearray()
    while len(raw) < MAX_ANSWER_BYTES and (part := await stream.read(MAX_ANSWER_BYTES - len(raw))):
        raw += part
    return bytes(raw)


def _require_success(host: str, status: int, retry_after: str) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise DeliveryFailed(f"{host} answered {status}: redirects are not followed. Write the final address.")
    delay = timedelta(seconds=int(retry_after)) if _SECONDS_PATTERN.fullmatch(retry_after) else None
    raise DeliveryFailed(
        f"{host} answered {status}.",
        is_final=status == _GONE,
        is_receiver_down=status >= 500 or status in _RECEIVER_BUSY,
        retry_after=None if delay is None else min(delay, MAX_RETRY_AFTER),
    )
