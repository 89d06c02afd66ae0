"""Converts a post in a chat to a command for the agent that it is addressed to."""

from collections.abc import Iterable, Sequence

from herdbeat.chat.base import ChatConnector, read_connectors
from herdbeat.domain.chat import ChatPlatform, ChatPost
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.service.commands.base import Actor, ReceiveChat, Scope

CHAT_ACTOR = Actor(name="chat", scopes=frozenset({Scope.TRIGGER}))
"""Who brings messages. What a message may do is decided by its author."""


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


def chat_request_id(command: ReceiveChat) -> str:
    """Return what makes the command unique: the same message, however often it is delivered, is executed once."""
    return f"chat:{command.event_id}"
