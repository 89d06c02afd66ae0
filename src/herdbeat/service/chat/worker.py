"""The connections of one node to Slack and Discord. They are beside the loop: none of them can delay a beat."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, assert_never

from herdbeat.chat.base import ChatConnector
from herdbeat.chat.discord import GatewayMessage, parse_message
from herdbeat.chat.discord_gateway import receive_discord
from herdbeat.chat.slack import parse_event
from herdbeat.chat.slack_socket import SLACK_API, receive_slack
from herdbeat.domain.chat import ChatPlatform, ChatPost
from herdbeat.domain.target import Target
from herdbeat.errors import ClaimLost, HerdbeatError, MissingExtra, StoreUnavailable
from herdbeat.scheduler.timers import Timer
from herdbeat.service.chat.routing import build_command, find_connectors
from herdbeat.service.commands.base import ReceiveChat
from herdbeat.store.base import Store

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
RENEWAL = timedelta(seconds=20)
ATTEMPT_DELAY = timedelta(seconds=3)
MAX_ATTEMPTS = 100
"""A ledger that cannot be written for five minutes is a longer outage: the sender is asked to write again."""

SendCommand = Callable[[ReceiveChat], Awaitable[object]]
"""Executes the command of a message, once for each message. Raises HerdbeatError."""


class _Connection(NamedTuple):
    """What a connection belongs to. Without a variable there is none: the platform calls the server."""

    platform: ChatPlatform
    token_env: str


@dataclass(slots=True)
class ChatWorker:
    """Connects the agents of a fleet. `holder` names this node among others.

    `find_targets` returns the agents as the files have them now, `changed` is set after these have changed. Who is
    heard is decided for each message, so only tokens that come or go open and close connections.
    """

    store: Store
    timer: Timer
    find_targets: Callable[[], Sequence[Target]]
    changed: asyncio.Event
    environ: Mapping[str, str]
    send: SendCommand
    holder: str
    slack_api: str = SLACK_API
    receive_gateway: Callable[[str, Callable[[GatewayMessage], Awaitable[None]]], Awaitable[None]] = receive_discord

    async def run(self) -> None:
        """Receive until cancelled, over one connection for each token that the agents name."""
        connections: dict[_Connection, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                self.changed.clear()
                wanted = self._find_connections()
                for key in connections.keys() - wanted.keys():
                    connections.pop(key).cancel()
                for key, token in wanted.items():
                    if key not in connections or connections[key].done():
                        receiving = self._keep(self._receive(key, token))
                        connections[key] = tasks.create_task(receiving, name=f"{key.platform} {key.token_env}")
                await self.changed.wait()

    def _find_connections(self) -> dict[_Connection, str]:
        """Return the connections that the agents need, each with its token. Agents that share an app share one."""
        found: dict[_Connection, str] = {}
        connectors = [each for platform in ChatPlatform for each in find_connectors(self.find_targets(), platform)]
        for connector in connectors:
            key = _find_connection(connector)
            if token := self.environ.get(key.token_env, ""):
                found[key] = token
            elif key.token_env:
                log.warning(
                    "chat not connected agent=%s the environment variable %s is not set",
                    connector.target,
                    key.token_env,
                )
        return found

    def _find_listeners(self, connection: _Connection) -> tuple[ChatConnector, ...]:
        connectors = find_connectors(self.find_targets(), connection.platform)
        return tuple(each for each in connectors if _find_connection(each) == connection)

    async def _receive(self, connection: _Connection, token: str) -> None:
        match connection.platform:
            case ChatPlatform.SLACK:
                await self._receive_slack(token, connection)
            case ChatPlatform.DISCORD:
                await self._receive_discord(token, connection)
            case other:
                assert_never(other)

    async def _keep(self, receiving: Awaitable[None]) -> None:
        try:
            await receiving
        except MissingExtra as error:
            log.error("chat not connected error=%s %s", error.message, error.hint)  # noqa: TRY400 -- no traceback

    async def _receive_slack(self, token: str, connection: _Connection) -> None:
        async def handle(payload: Mapping[str, object]) -> bool:
            post = parse_event(payload)
            return post is None or await self._take(post, connection)

        await receive_slack(token, handle, api=self.slack_api)

    async def _receive_discord(self, token: str, connection: _Connection) -> None:
        """One node has the connection of a bot: the others wait until its lease is over."""

        async def handle(message: GatewayMessage) -> None:
            await self._take_surely(parse_message(message), connection)

        never, lease = asyncio.Event(), f"discord:{connection.token_env}"
        while True:
            if await self._take_lease(lease):
                await self._hold_gateway(token, lease, handle)
            await self.timer.sleep_until(self.timer.now() + RENEWAL, never)

    async def _hold_gateway(self, token: str, lease: str, handle: Callable[[GatewayMessage], Awaitable[None]]) -> None:
        """Receive while the lease is ours. Returns when it is lost, or the connection has ended."""
        receiving = asyncio.ensure_future(self.receive_gateway(token, handle))
        never = asyncio.Event()
        try:
            while not receiving.done():
                pause = asyncio.ensure_future(self.timer.sleep_until(self.timer.now() + RENEWAL, never))
                await asyncio.wait({receiving, pause}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                if not receiving.done() and not await self._take_lease(lease):
                    log.warning("discord connection given up another node has taken it")
                    return
            await receiving
        except ConnectionError as error:
            log.warning("discord not connected error=%s retry in %s", error, RENEWAL)
        finally:
            receiving.cancel()
            await asyncio.wait({receiving})

    async def _take_lease(self, name: str) -> bool:
        now = self.timer.now()
        try:
            return await self.store.write(lambda tx: tx.lease_take(name, self.holder, now, now + LEASE))
        except (StoreUnavailable, ClaimLost) as error:
            log.debug("lease not taken name=%s error=%s", name, error)
            return False

    async def _take_surely(self, post: ChatPost, connection: _Connection) -> None:
        """Discord delivers a message once: what cannot be written now is written a moment later."""
        never = asyncio.Event()
        for _ in range(MAX_ATTEMPTS):
            if await self._take(post, connection):
                return
            await self.timer.sleep_until(self.timer.now() + ATTEMPT_DELAY, never)
        log.error("message lost user=%s channel=%s the ledger cannot be written", post.user, post.channel)

    async def _take(self, post: ChatPost, connection: _Connection) -> bool:
        """Return whether the post needs nothing more: it is durable, or addressed to no agent."""
        command = build_command(self._find_listeners(connection), post)
        if command is None:
            return True
        try:
            await self.send(command)
        except HerdbeatError as error:
            log.warning("message not taken agent=%s error=%s it is tried again", command.target, error.message)
            return False
        return True


def _find_connection(connector: ChatConnector) -> _Connection:
    is_slack = connector.platform is ChatPlatform.SLACK
    return _Connection(connector.platform, connector.app_token_env if is_slack else connector.bot_token_env)
