"""Slack's Socket Mode: events come over a connection that we open, so no address of ours has to be public.

The client of `slack_sdk` opens another connection when one is dropped, when Slack asks for it, and when nothing
answers its pings. An event is acknowledged after it is durable: what is not acknowledged in time comes again, and is
recognized.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from herdbeat.errors import MissingExtra

log = logging.getLogger(__name__)

HandleEvent = Callable[[Mapping[str, object]], Awaitable[bool]]
"""Takes the payload of an event. Returns whether it is durable, or of no interest: then it is acknowledged."""

RETRY_DELAYS_S = (1.0, 5.0, 15.0, 60.0)
PING_INTERVAL_S = 5.0
MAX_MISSED_CHECKS = 2
"""Checks in a row without a connection, after which another client is used."""

SLACK_API = "https://slack.com/api"


async def receive_slack(
    app_token: str, handle: HandleEvent, *, api: str = SLACK_API, ping_interval_s: float = PING_INTERVAL_S
) -> None:
    """Receive until cancelled. Raises MissingExtra without the package."""
    try:
        from aiohttp import ClientError  # noqa: PLC0415
        from slack_sdk.errors import SlackApiError, SlackClientError  # noqa: PLC0415 -- an extra
        from slack_sdk.socket_mode.aiohttp import SocketModeClient  # noqa: PLC0415
        from slack_sdk.socket_mode.response import SocketModeResponse  # noqa: PLC0415
        from slack_sdk.web.async_client import AsyncWebClient  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("Slack", "slack") from error

    async def listen(client: Any, request: Any) -> None:
        if request.type != "events_api" or await handle(request.payload):
            await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    attempt = 0
    while True:
        client: Any = SocketModeClient(
            app_token=app_token,
            web_client=AsyncWebClient(token=app_token, base_url=f"{api}/"),
            ping_interval=ping_interval_s,
            logger=log,
        )
        client.socket_mode_request_listeners.append(listen)
        try:
            await client.connect()
            attempt = 0
            await _watch(client, ping_interval_s)
        except (SlackApiError, SlackClientError, ClientError, OSError, ValueError) as error:
            delay = RETRY_DELAYS_S[min(attempt, len(RETRY_DELAYS_S) - 1)]
            log.warning("slack not connected error=%s retry in %ss", _describe(error), delay)
            attempt += 1
            await asyncio.sleep(delay)
        finally:
            await client.close()


async def _watch(client: Any, interval_s: float) -> None:
    """Raises ConnectionError if the client stays without a connection: if Slack refuses another one, it gives up."""
    misses = 0
    while misses < MAX_MISSED_CHECKS:
        await asyncio.sleep(interval_s)
        misses = 0 if await client.is_connected() else misses + 1
    raise ConnectionError("the connection is gone")


def _describe(error: Exception) -> str:
    """Return Slack's own word for what is wrong, without the request that may hold a token."""
    response = getattr(error, "response", None)
    word = response.get("error") if response is not None else None
    return str(word or type(error).__name__)[:100]
