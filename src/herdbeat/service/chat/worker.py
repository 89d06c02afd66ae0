"""The connections of one node to Slack and Discord. They are beside the loop: none of them can delay a beat."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

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


@dataclass(slots=True)
class ChatWorker:
    """Connects the agents of a fleet. `holder` names this node among others."""

    store: Store
    timer: Timer
    targets: Sequence[Target]
    environ: Mapping[str, str]
    send: SendCommand
    holder: str
    slack_api: str = SLACK_API
    receive_gateway: Callable[[str, Callable[[GatewayMessage], Awaitable[None]]], Awaitable[None]] = receive_discord

    async def run(self) -> None:
        """Receive until cancelled. Returns at once if no agent has a connector that needs a connection."""
        slack = _group(find_connectors(self.targets, ChatPlatform.SLACK), lambda each: each.app_token_env)
        discord = _group(find_connectors(self.targets, ChatPlatform.DISCORD), lambda each: each.bot_token_env)
        async with asyncio.TaskGroup() as tasks:
            for name, connectors in slack.items():
                if token := self._find_token(name, connectors):
                    tasks.create_task(self._keep(self._receive_slack(token, connectors)), name=f"slack {name}")
            for name, connectors in discord.items():
                if token := self._find_token(name, connectors):
                    tasks.create_task(
                        self._keep(self._receive_discord(token, name, connectors)), name=f"discord {name}"
                    )

    def _find_token(self, name: str, connectors: Sequence[ChatConnector]) -> str:
        token = self.environ.get(name, "") if name else ""
        if name and not token:
            agents = ", ".join(each.target for each in connectors)
            log.warning("chat not connected agents=%s the environment variable %s is not set", agents, name)
        return token

    async def _keep(self, receiving: Awaitable[None]) -> None:
        try:
            await receiving
        except MissingExtra as error:
            log.error("chat not connected error=%s %s", error.message, error.hint)  # noqa: TRY400 -- no traceback

    async def _receive_slack(self, token: str, connectors: Sequence[ChatConnector]) -> None:
        async def handle(payload: Mapping[str, object]) -> bool:
            post = parse_event(payload)
            return post is None or await self._take(post, connectors)

        await receive_slack(token, handle, api=self.slack_api)

    async def _receive_discord(self, token: str, name: str, connectors: Sequence[ChatConnector]) -> None:
        """One node has the connection of a bot: the others wait until its lease is over."""

        async def handle(message: GatewayMessage) -> None:
            await self._take_surely(parse_message(message), connectors)

        never, lease = asyncio.Event(), f"discord:{name}"
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

    async def _take_surely(self, post: ChatPost, connectors: Sequence[ChatConnector]) -> None:
        """Discord delivers a message once: what cannot be written now is written a moment later."""
        never = asyncio.Event()
        for _ in range(MAX_ATTEMPTS):
            if await self._take(post, connectors):
                return
            await self.timer.sleep_until(self.timer.now() + ATTEMPT_DELAY, never)
        log.error("message lost user=%s channel=%s the ledger cannot be written", post.user, post.channel)

    async def _take(self, post: ChatPost, connectors: Sequence[ChatConnector]) -> bool:
        """Return whether the post needs nothing more: it is durable, or addressed to no agent."""
        command = build_command(connectors, post)
        if command is None:
            return True
        try:
            await self.send(command)
        except HerdbeatError as error:
            log.warning("message not taken agent=%s error=%s it is tried again", command.target, error.message)
            return False
        return True


def _group(
    connectors: Sequence[ChatConnector], key: Callable[[ChatConnector], str]
) -> dict[str, tuple[ChatConnector, ...]]:
    """Agents that share an app share its connection."""
    grouped: dict[str, tuple[ChatConnector, ...]] = {}
    for each in connectors:
        grouped[key(each)] = (*grouped.get(key(each), ()), each)
    return {name: group for name, group in grouped.items() if name}
