"""Discord's gateway: messages come over a connection of the bot. A bot has one, so one node of a fleet opens it."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from herdbeat.chat.discord import GatewayMessage
from herdbeat.errors import MissingExtra

log = logging.getLogger(__name__)

HandleMessage = Callable[[GatewayMessage], Awaitable[None]]


async def receive_discord(token: str, handle: HandleMessage) -> None:
    """Receive until cancelled. Raises MissingExtra without the package, ConnectionError if Discord refuses the bot."""
    try:
        import discord  # noqa: PLC0415 -- an extra, and slow to load
    except ImportError as error:
        raise MissingExtra("Discord", "discord") from error

    intents = discord.Intents.default()
    intents.message_content = True
    client = discord.Client(intents=intents)

    async def on_message(message: Any) -> None:
        if client.user is not None:
            await handle(read_message(message, client.user))

    client.event(on_message)
    try:
        await client.start(token)
    except discord.LoginFailure as error:
        raise ConnectionError("Discord refused the token of the bot.") from error
    except discord.PrivilegedIntentsRequired as error:
        raise ConnectionError("Switch on the Message Content Intent of the bot in Discord's portal.") from error
    except discord.DiscordException as error:
        raise ConnectionError(f"Discord ended the connection ({type(error).__name__}).") from error
    finally:
        if not client.is_closed():
            await client.close()


def read_message(message: Any, bot: Any) -> GatewayMessage:
    """Return a `discord.Message` in our words."""
    channel, guild = message.channel, getattr(message, "guild", None)
    parent = getattr(channel, "parent_id", None) if _is_thread(channel) else None
    mentioned = {str(user.id) for user in message.mentions}
    return GatewayMessage(
        id=str(message.id),
        channel=str(channel.id),
        parent="" if parent is None else str(parent),
        author=str(message.author.id),
        text=str(message.content or ""),
        bot_user=str(bot.id),
        is_by_bot=bool(message.author.bot) or getattr(message, "webhook_id", None) is not None,
        is_direct=guild is None,
        mentions_bot=str(bot.id) in mentioned,
    )


def _is_thread(channel: Any) -> bool:
    return getattr(getattr(channel, "type", None), "value", None) in (10, 11, 12)
