"""Discord: signatures of its interactions, and what came as posts."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from herdbeat.chat.base import MAX_TEXT_CHARS
from herdbeat.domain.chat import ChatPlatform, ChatPost
from herdbeat.errors import MissingExtra

PING, COMMAND = 1, 2
PONG_ANSWER = {"type": 1}
_KEY_PATTERN = re.compile("[0-9a-fA-F]{64}")
_SIGNATURE_PATTERN = re.compile("[0-9a-fA-F]{128}")
_EPHEMERAL = 64
_MAX_CONTENT_CHARS = 2_000


def is_signed(public_key: str, timestamp: str, signature: str, body: bytes) -> bool:
    """Return whether the owner of the key has signed these very bytes. Raises MissingExtra without `cryptography`."""
    if not _KEY_PATTERN.fullmatch(public_key) or not _SIGNATURE_PATTERN.fullmatch(signature):
        return False
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 -- an extra
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("Discord", "discord") from error
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), timestamp.encode("utf-8", "replace") + body)
    except (InvalidSignature, ValueError):
        return False
    return True


def parse_interaction(data: Mapping[str, object]) -> ChatPost | None:
    """Return what somebody wrote behind a command: `/ask text`, `/run name`. None for other interactions."""
    command = data.get("data")
    if data.get("type") != COMMAND or not isinstance(command, Mapping) or not isinstance(data.get("id"), str):
        return None
    member, user = data.get("member"), data.get("user")
    author = member.get("user") if isinstance(member, Mapping) else user
    name, words = str(command.get("name") or ""), " ".join(_option_values(command))
    text = words if name in ("ask", "chat") else f"{name} {words}".strip()
    channel, thread = _find_channel(data)
    return ChatPost(
        platform=ChatPlatform.DISCORD,
        channel=channel,
        id=str(data["id"]),
        thread=thread or str(data["id"]),
        user=str(author.get("id") or "") if isinstance(author, Mapping) else "",
        text=text[:MAX_TEXT_CHARS],
        is_direct=member is None,
        mentions_bot=True,
        has_thread=bool(thread),
    )


def _find_channel(data: Mapping[str, object]) -> tuple[str, str]:
    """Return the channel, and the thread in it if the command was written there."""
    channel, number = data.get("channel"), str(data.get("channel_id") or "")
    parent = channel.get("parent_id") if isinstance(channel, Mapping) else None
    is_thread = isinstance(channel, Mapping) and channel.get("type") in (10, 11, 12)
    return (str(parent), number) if is_thread and parent else (number, "")


def _option_values(command: Mapping[str, object]) -> Iterator[str]:
    options = command.get("options")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, Mapping) and option.get("value") is not None:
            yield str(option["value"])


def build_interaction_answer(text: str) -> dict[str, object]:
    """Return the first answer to a command, which only its author sees. The agent's own answer follows as a message."""
    data = {"content": text[:_MAX_CONTENT_CHARS], "flags": _EPHEMERAL, "allowed_mentions": {"parse": []}}
    return {"type": 4, "data": data}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayMessage:
    """A message as the gateway has it: what `discord.Message` says, in our words."""

    id: str
    channel: str
    parent: str
    author: str
    text: str
    bot_user: str
    is_by_bot: bool
    is_direct: bool
    mentions_bot: bool


def parse_message(message: GatewayMessage) -> ChatPost:
    """Return the post. A thread that a message began has the id of that message, so its first one knows its thread."""
    mention = re.compile(f"<@!?{re.escape(message.bot_user)}>")
    is_in_thread = bool(message.parent)
    return ChatPost(
        platform=ChatPlatform.DISCORD,
        channel=message.parent or message.channel,
        id=message.id,
        thread=message.channel if is_in_thread or message.is_direct else message.id,
        user=message.author,
        text=mention.sub("", message.text)[:MAX_TEXT_CHARS].strip(),
        is_direct=message.is_direct,
        is_by_bot=message.is_by_bot or message.author == message.bot_user,
        mentions_bot=message.mentions_bot,
        has_thread=not message.is_direct,
    )
