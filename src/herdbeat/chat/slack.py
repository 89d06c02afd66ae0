"""Slack: signatures of its requests, and its events as posts."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime

from herdbeat.chat.base import MAX_TEXT_CHARS
from herdbeat.domain.chat import ChatPlatform, ChatPost

MAX_SIGNATURE_AGE_S = 300
_MENTION_PATTERN = re.compile(r"<@([A-Z0-9]+)(\|[^>]*)?>")


def is_signed(secret: str, timestamp: str, signature: str, body: bytes, now: datetime) -> bool:
    """Return whether Slack has signed these very bytes, within the last minutes."""
    if not secret or not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        return False
    if abs(now.timestamp() - int(timestamp)) > MAX_SIGNATURE_AGE_S:
        return False
    expected = hmac.new(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={expected}".encode(), signature.encode("utf-8", "replace"))


def parse_event(payload: Mapping[str, object]) -> ChatPost | None:
    """Return the message of an `event_callback`; None for everything else, such as edits and joins.

    A mention in a channel comes as `app_mention` and as `message`: both have one channel and one time, its id.
    """
    event = payload.get("event")
    if payload.get("type") != "event_callback" or not isinstance(event, Mapping):
        return None
    kind, at, channel = event.get("type"), event.get("ts"), event.get("channel")
    if kind not in ("app_mention", "message") or not isinstance(at, str) or not isinstance(channel, str):
        return None
    if event.get("subtype") not in (None, "thread_broadcast", "file_share"):
        return None
    bot_user, text = _find_bot_user(payload), str(event.get("text") or "")[:MAX_TEXT_CHARS]
    user, thread = str(event.get("user") or ""), str(event.get("thread_ts") or at)
    return ChatPost(
        platform=ChatPlatform.SLACK,
        channel=channel,
        id=at,
        thread=thread,
        user=user,
        text=_clean(text, bot_user),
        is_direct=event.get("channel_type") == "im" or channel.startswith("D"),
        is_by_bot=bool(event.get("bot_id")) or not user or user == bot_user,
        mentions_bot=kind == "app_mention" or (bool(bot_user) and f"<@{bot_user}" in text),
    )


def _find_bot_user(payload: Mapping[str, object]) -> str:
    authorizations = payload.get("authorizations")
    first = authorizations[0] if isinstance(authorizations, list) and authorizations else {}
    return str(first.get("user_id") or "") if isinstance(first, Mapping) else ""


def _clean(text: str, bot_user: str) -> str:
    """Remove the mention of the bot, and undo what Slack escapes. Without knowing the bot, the first mention is it."""
    if bot_user:
        text = _MENTION_PATTERN.sub(lambda found: "" if found[1] == bot_user else found[0], text)
    else:
        text = _MENTION_PATTERN.sub("", text, count=1)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()
