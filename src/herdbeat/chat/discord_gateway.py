"""Discord's gateway: messages come over a connection of the bot. A bot has one, so one node of a fleet opens it."""

import importlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from herdbeat.chat.discord import GatewayMessage
from herdbeat.errors import MissingExtra
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

HandleMessage = Callable[[GatewayMessage], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordAddress:
    """Where Discord is, if not where everybody finds it."""

    api: str = ""
    gateway: str = ""


async def receive_discord(token: str, handle: HandleMessage, address: DiscordAddress | None = None) -> None:
    """Receive until cancelled. Raises MissingExtra without the package, ConnectionError if Discord refuses the bot.

    The client of `discord` opens another connection when one is dropped and resumes its session, so messages in between
    arrive; a session that Discord has forgotten begins anew.
    """
    try:
        discord = await call_in_thread(importlib.import_module, "discord")  # an extra, and slow to load
        aiohttp = importlib.import_module("aiohttp")
    except ImportError as error:
        raise MissingExtra("Discord", "discord") from error

    if address is not None:
        _place(discord, address)
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
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        raise ConnectionError(f"Discord cannot be reached ({type(error).__name__}).") from error
    except (TypeError, KeyError, ValueError) as error:
        # What the library does with an answer that is not Discord's, such as the page of a proxy.
        raise ConnectionError(f"The answer is not Discord's ({type(error).__name__}).") from error
    finally:
        if not client.is_closed():
            await client.close()


def _place(library: Any, address: DiscordAddress) -> None:
    """Tell the library where Discord is. It knows one place for the whole process."""
    if address.api:
        library.http.Route.BASE = address.api
    if address.gateway:
        import yarl  # noqa: PLC0415 -- comes with the extra

        library.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(address.gateway)


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
