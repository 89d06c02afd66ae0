"""Discord: a webhook by its URL, or a post of a bot into a channel."""

import json
import re
from datetime import timedelta

from herdbeat.notify.base import OutgoingMessage
from herdbeat.notify.http import HttpPost

DISCORD_API = "https://discord.com/api/v10"
MAX_CONTENT_CHARS = 2_000
_MARKUP_PATTERN = re.compile(r"([\\*_~`|>#\[\]()<@:-])")
_SUPPRESS_EMBEDS = 4


def build_discord(message: OutgoingMessage, token: str, timeout: timedelta, api: str = DISCORD_API) -> HttpPost:
    """Return the request. Markup is escaped, and no text can mention anybody."""
    link = f"\n{message.url}" if message.url else ""
    room = MAX_CONTENT_CHARS - len(link)
    content: dict[str, object] = {
        "content": escape(message.text)[:room] + link,
        "allowed_mentions": {"parse": []},
        "flags": _SUPPRESS_EMBEDS,
    }
    headers, url = {"Content-Type": "application/json"}, message.option("url")
    if not url:
        url = f"{api}/channels/{message.option('channel_id')}/messages"
        headers["Authorization"] = f"Bot {token}"
        # Discord keeps a nonce for some minutes, and answers a repetition with the first message.
        content |= {"nonce": message.id[-25:], "enforce_nonce": True}
    return HttpPost(url=url, body=json.dumps(content).encode(), headers=headers, timeout=timeout)


def escape(text: str) -> str:
    return _MARKUP_PATTERN.sub(r"\\\1", text)
