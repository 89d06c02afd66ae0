"""Connects the chat of a running fleet: Slack, Discord, and the progress of runs in their threads.

Imported when the files have the first `chat` block: few fleets have one.
"""

import asyncio
import os
import platform
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from functools import partial

from herdbeat.bootstrap.fleet import RunningFleet, end_task, find_chat_addresses, find_chat_targets, log_failure
from herdbeat.chat.discord_gateway import DiscordAddress, receive_discord
from herdbeat.chat.slack_socket import SLACK_API
from herdbeat.domain.run import Claim
from herdbeat.domain.target import Target
from herdbeat.notify.channels.chat import ProgressPoster
from herdbeat.notify.http import HttpSender
from herdbeat.service.chat.progress import ChatProgress
from herdbeat.service.chat.routing import CHAT_ACTOR, build_chat_request_id
from herdbeat.service.chat.worker import ChatWorker
from herdbeat.service.commands.base import ReceiveChat
from herdbeat.store.location import open_reader

_DISCORD_GATEWAY_VARIABLE = "HERDBEAT_DISCORD_GATEWAY"
"""Where Discord's connections are, for tests and for gateways in between."""


def _find_discord(environ: Mapping[str, str]) -> DiscordAddress:
    api = find_chat_addresses(environ).get("discord_api", "")
    return DiscordAddress(api=api, gateway=environ.get(_DISCORD_GATEWAY_VARIABLE, ""))


async def serve_chat(running: RunningFleet, changed: asyncio.Event) -> None:
    """Chat until cancelled. `changed` is set after the files have changed."""
    environ = running.environ
    addresses = find_chat_addresses(environ)

    def find_targets() -> list[Target]:
        return find_chat_targets(running.channels.fleet)

    async def send(command: ReceiveChat) -> object:
        return await running.dispatcher.run(CHAT_ACTOR, command, request_id=build_chat_request_id(command))

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
            running.clock, reader, ProgressPoster(http, environ, **addresses), partial(_list_active_claims, running)
        )
        tasks = [
            asyncio.create_task(work(), name=name)
            for work, name in ((worker.run, "chat connections"), (progress.run, "chat progress"))
        ]
        for each in tasks:  # not a group: messages are worth more than their progress
            each.add_done_callback(log_failure)
            stack.push_async_callback(end_task, each)
        await asyncio.wait(tasks)


def _list_active_claims(running: RunningFleet) -> dict[int, Claim]:
    loop = running.node.loop
    return {} if loop is None else {number: each.claim for number, each in loop.active_runs.items()}
