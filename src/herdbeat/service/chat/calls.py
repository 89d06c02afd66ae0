"""Signed requests of Slack and Discord, from bytes to an answer. The signature is verified before parsing."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from herdbeat.chat import discord, slack
from herdbeat.chat.base import ChatConnector
from herdbeat.service.chat.routing import build_command
from herdbeat.service.commands.base import ChatReceipt, ReceiveChat

SendNow = Callable[[ReceiveChat], ChatReceipt]
"""Executes the command of a message. Raises HerdbeatError."""

ACCEPTED = "Working on it. The answer comes as a message."
NOT_HEARD = "You cannot talk to this agent here."


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
