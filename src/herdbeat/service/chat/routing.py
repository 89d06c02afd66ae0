"""Routes what comes from a chat: a post becomes a command for the agent that it is addressed to.

Also answers the signed requests of Slack and Discord, whose signature is verified before anything is parsed.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from herdbeat.chat import discord, slack
from herdbeat.chat.base import ChatConnector, read_connectors
from herdbeat.domain.chat import ChatPlatform, ChatPost
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.service.commands.base import Actor, ChatReceipt, ReceiveChat, Scope

CHAT_ACTOR = Actor(name="chat", scopes=frozenset({Scope.TRIGGER}))
"""Who brings messages. What a message may do is decided by its author."""

ACCEPTED = "Working on it. The answer comes as a message."
NOT_HEARD = "You cannot talk to this agent here."
SendNow = Callable[[ReceiveChat], ChatReceipt]
"""Executes the command of a message. Raises HerdbeatError."""


def find_connectors(targets: Iterable[Target], platform: ChatPlatform) -> tuple[ChatConnector, ...]:
    """Return the connectors of all agents to a platform."""
    return tuple(
        connector
        for target in targets
        if isinstance(target.spec, AgentSpec) and target.spec.chat
        for connector in read_connectors(target.name, target.spec.chat)
        if connector.platform is platform
    )


def build_command(
    connectors: Sequence[ChatConnector], post: ChatPost, *, replies_inline: bool = False
) -> ReceiveChat | None:
    """Return the command for the first agent that the post is addressed to; None if there is none."""
    connector = next((each for each in connectors if each.hears(post)), None)
    if connector is None:
        return None
    return ReceiveChat(
        platform=post.platform,
        target=connector.target,
        channel=post.channel,
        thread=post.thread,
        message=post.id,
        user=post.user,
        text=post.text,
        bot_token_env=connector.bot_token_env,
        may_command=connector.may_command(post.user),
        has_thread=post.has_thread,
        replies_inline=replies_inline,
    )


def build_chat_request_id(command: ReceiveChat) -> str:
    """Return what makes the command unique: the same message, however often it is delivered, is executed once."""
    return f"chat:{command.event_id}"


# --- signed requests


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCall:
    """A request as it arrived: the very bytes that were signed, and its headers by small names."""

    body: bytes
    headers: Mapping[str, str]
    received_at: datetime

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def read(self) -> Mapping[str, object]:
        try:
            data = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}


def answer_slack(
    call: ChatCall, connectors: Sequence[ChatConnector], environ: Mapping[str, str], send: SendNow
) -> Mapping[str, object] | str | None:
    """Return the answer: JSON, or the text of a challenge; None if the call is not proven."""
    timestamp, signature = call.header("x-slack-request-timestamp"), call.header("x-slack-signature")
    secrets = [environ.get(each.signing_secret_env, "") for each in connectors if each.signing_secret_env]
    if not any(slack.is_signed(each, timestamp, signature, call.body, call.received_at) for each in secrets):
        return None
    data = call.read()
    if data.get("type") == "url_verification":
        return str(data.get("challenge") or "")[:1_000]
    post = slack.parse_event(data)
    command = None if post is None else build_command(connectors, post)
    if command is not None:
        send(command)
    return {"ok": True}


def answer_discord(call: ChatCall, connectors: Sequence[ChatConnector], send: SendNow) -> Mapping[str, object] | None:
    """Return the answer to an interaction; None if the call is not proven. Raises MissingExtra."""
    timestamp, signature = call.header("x-signature-timestamp"), call.header("x-signature-ed25519")
    keys = [each.public_key for each in connectors if each.public_key]
    if not any(discord.is_signed(each, timestamp, signature, call.body) for each in keys):
        return None
    data = call.read()
    if data.get("type") == discord.PING:
        return discord.PONG_ANSWER
    post = discord.parse_interaction(data)
    command = None if post is None else build_command(connectors, post, replies_inline=True)
    if command is None:
        return discord.build_interaction_answer(NOT_HEARD)
    return discord.build_interaction_answer(send(command).reply or ACCEPTED)
