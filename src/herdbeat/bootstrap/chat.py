"""Connects the chat of a running fleet: Slack, Discord, and the progress of runs in their threads."""

import asyncio
import logging
import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from typing import TYPE_CHECKING

from herdbeat.chat.discord_gateway import DiscordAddress, receive_discord
from herdbeat.chat.slack_socket import SLACK_API
from herdbeat.domain.run import Claim
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.notify.channels.chat import ProgressPoster
from herdbeat.notify.http import HttpSender
from herdbeat.service.chat.progress import ChatProgress
from herdbeat.service.chat.routing import CHAT_ACTOR, chat_request_id
from herdbeat.service.chat.worker import ChatWorker
from herdbeat.service.commands.base import ReceiveChat
from herdbeat.store.location import open_reader

if TYPE_CHECKING:
    from herdbeat.bootstrap.fleet import RunningFleet

log = logging.getLogger(__name__)

_SLACK_API_VARIABLE, _DISCORD_API_VARIABLE = "HERDBEAT_SLACK_API", "HERDBEAT_DISCORD_API"
_DISCORD_GATEWAY_VARIABLE = "HERDBEAT_DISCORD_GATEWAY"
"""Where Slack and Discord are, for tests and for gateways in between."""


def chat_addresses(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of the platforms that the environment replaces."""
    names = {"slack_api": _SLACK_API_VARIABLE, "discord_api": _DISCORD_API_VARIABLE}
    return {name: environ[variable].rstrip("/") for name, variable in names.items() if environ.get(variable)}


def _find_discord(environ: Mapping[str, str]) -> DiscordAddress:
    api, gateway = environ.get(_DISCORD_API_VARIABLE, ""), environ.get(_DISCORD_GATEWAY_VARIABLE, "")
    return DiscordAddress(api=api.rstrip("/"), gateway=gateway)


@asynccontextmanager
async def open_chat(running: "RunningFleet", environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Connect the agents that have a `chat` block, as soon as the files have one."""
    task = asyncio.create_task(_chat(running, environ, running.channels.watch()), name="chat")
    task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        await _end(task)


async def _chat(running: "RunningFleet", environ: Mapping[str, str], changed: asyncio.Event) -> None:
    """Chat until cancelled. A fleet without a `chat` block pays nothing for it."""

    def find_targets() -> list[Target]:
        targets = running.channels.fleet.targets
        return [each for each in targets if isinstance(each.spec, AgentSpec) and each.spec.chat]

    while not find_targets():
        changed.clear()
        await changed.wait()
    addresses = chat_addresses(environ)

    async def send(command: ReceiveChat) -> object:
        return await running.dispatcher.run(CHAT_ACTOR, command, request_id=chat_request_id(command))

    async with AsyncExitStack() as stack:
        reader = stack.enter_context(closing(open_reader(running.store.location)))
        http = HttpSender()
        stack.push_async_callback(http.close)
        worker = ChatWorker(
            running.store,
            running.clock,
            find_targets,
            changed,
            environ,
            send,
            f"{platform.node()}:{os.getpid()}",
            addresses.get("slack_api", SLACK_API),
            partial(receive_discord, address=_find_discord(environ)),
        )
        progress = ChatProgress(
            running.clock, reader, ProgressPoster(http, environ, **addresses), partial(_active_claims, running)
        )
        tasks = [
            asyncio.create_task(work(), name=name)
            for work, name in ((worker.run, "chat connections"), (progress.run, "chat progress"))
        ]
        for each in tasks:  # not a group: messages are worth more than their progress
            each.add_done_callback(_log_failure)
            stack.push_async_callback(_end, each)
        await asyncio.wait(tasks)


def _active_claims(running: "RunningFleet") -> dict[int, Claim]:
    loop = running.node.loop
    return {} if loop is None else {number: each.claim for number, each in loop.active_runs.items()}


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Beats go on without chat, so somebody has to be told that it is gone."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("%s stopped error=%r restart the node to connect again", task.get_name(), error, exc_info=error)


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
