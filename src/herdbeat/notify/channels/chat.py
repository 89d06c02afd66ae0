"""Answers in the threads of Slack and Discord, by the token of the bot. Long ones are files.

What agents write is only text: it can mention nobody, and link to nothing behind other words.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from herdbeat.notify.base import DeliveryFailed, OutgoingMessage
from herdbeat.notify.channels.discord import DISCORD_API, MAX_CONTENT_CHARS
from herdbeat.notify.channels.slack import SLACK_API, check_slack, escape
from herdbeat.notify.http import HttpPost, HttpSender

_FILE_NAME = "answer.md"
_ZERO_WIDTH_SPACE = "\u200b"
_HIDDEN_LINK_PATTERN = re.compile(r"\](?=\(\s*<?\s*[a-z]+:)", re.IGNORECASE)
_THREAD_MINUTES = 1440
_TIMEOUT = timedelta(seconds=10)


async def send_slack_chat(
    http: HttpSender, message: OutgoingMessage, token: str, time_limit: timedelta, api: str
) -> None:
    """Post into the thread of a message. Raises DeliveryFailed."""
    file = message.payload.get("file")
    if isinstance(file, str):
        await _upload_to_slack(http, message, file, token, time_limit, api)
        return
    content: dict[str, object] = {
        "channel": message.option("channel"),
        "thread_ts": message.option("thread"),
        "text": escape(message.whole_text),
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }
    check_slack(await http.post(_slack_json("chat.postMessage", content, token, time_limit, api)))


async def _upload_to_slack(
    http: HttpSender, message: OutgoingMessage, text: str, token: str, time_limit: timedelta, api: str
) -> None:
    data = text.encode("utf-8", "replace")
    asked = urlencode({"filename": _FILE_NAME, "length": len(data)}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Bearer {token}"}
    place = await http.post(
        HttpPost(
            url=f"{api}/files.getUploadURLExternal",
            body=asked,
            headers=headers,
            timeout=time_limit,
            wants_answer=True,
        )
    )
    check_slack(place)
    if not isinstance(place, dict) or not isinstance(place.get("upload_url"), str):
        raise DeliveryFailed("Slack named no place for the file.", is_receiver_down=False)
    await http.post(HttpPost(url=place["upload_url"], body=data, timeout=time_limit))
    content: dict[str, object] = {
        "files": [{"id": place.get("file_id"), "title": _FILE_NAME}],
        "channel_id": message.option("channel"),
        "thread_ts": message.option("thread"),
        "initial_comment": escape(message.text),
    }
    check_slack(await http.post(_slack_json("files.completeUploadExternal", content, token, time_limit, api)))


def _slack_json(method: str, content: dict[str, object], token: str, time_limit: timedelta, api: str) -> HttpPost:
    headers = {"Content-Type": "application/json; charset=utf-8", "Authorization": f"Bearer {token}"}
    body = json.dumps(content).encode()
    return HttpPost(url=f"{api}/{method}", body=body, headers=headers, timeout=time_limit, wants_answer=True)


async def send_discord_chat(
    http: HttpSender, message: OutgoingMessage, token: str, time_limit: timedelta, api: str
) -> None:
    """Post into the thread of a message, which is begun if necessary. Raises DeliveryFailed."""
    headers = {"Authorization": f"Bot {token}", "Content-Type": "application/json"}
    channel, thread = message.option("channel"), message.option("thread")
    place = channel
    if message.spec.get("has_thread") and thread != channel:
        if thread == message.option("message"):
            await _begin_thread(http, f"{api}/channels/{channel}/messages/{thread}/threads", headers, time_limit)
        place = thread
    content: dict[str, object] = {
        "content": neutralise(message.whole_text)[:MAX_CONTENT_CHARS],
        "allowed_mentions": {"parse": []},
        # Discord keeps a nonce for some minutes, and answers a repetition with the first message.
        "nonce": message.id[-25:],
        "enforce_nonce": True,
    }
    if place == channel and message.option("message"):
        content["message_reference"] = {"message_id": message.option("message"), "fail_if_not_exists": False}
    body, content_type = json.dumps(content).encode(), "application/json"
    if isinstance(message.payload.get("file"), str):
        body, content_type = _build_form(content, str(message.payload["file"]))
    await http.post(
        HttpPost(
            url=f"{api}/channels/{place}/messages",
            body=body,
            headers={**headers, "Content-Type": content_type},
            timeout=time_limit,
        )
    )


async def _begin_thread(http: HttpSender, url: str, headers: dict[str, str], time_limit: timedelta) -> None:
    """A thread that is there already is refused with 400, which is as good."""
    content = {"name": "herdbeat", "auto_archive_duration": _THREAD_MINUTES}
    try:
        await http.post(HttpPost(url=url, body=json.dumps(content).encode(), headers=headers, timeout=time_limit))
    except DeliveryFailed as error:
        if error.is_receiver_down:
            raise


def neutralise(text: str) -> str:
    """Return the text without mentions, and without links behind other words.

    The request tells Discord to notify nobody; this also shows mentions as plain text, and where a link leads.
    """
    text = _HIDDEN_LINK_PATTERN.sub(f"]{_ZERO_WIDTH_SPACE}", text)
    for sign in ("@everyone", "@here"):
        text = text.replace(sign, f"@{_ZERO_WIDTH_SPACE}{sign[1:]}")
    return text.replace("<@", f"<{_ZERO_WIDTH_SPACE}@").replace("<#", f"<{_ZERO_WIDTH_SPACE}#")


def _build_form(content: dict[str, object], text: str) -> tuple[bytes, str]:
    """Return a multipart form with the message and the file, and its content type."""
    border = f"herdbeat-{secrets.token_hex(16)}"
    head = (
        f'--{border}\r\nContent-Disposition: form-data; name="payload_json"\r\nContent-Type: application/json\r\n\r\n'
    )
    file = (
        f'\r\n--{border}\r\nContent-Disposition: form-data; name="files[0]"; filename="{_FILE_NAME}"\r\n'
        "Content-Type: text/markdown; charset=utf-8\r\n\r\n"
    )
    parts = (head.encode(), json.dumps(content).encode(), file.encode(), text.encode("utf-8", "replace"))
    return b"".join(parts) + f"\r\n--{border}--\r\n".encode(), f"multipart/form-data; boundary={border}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlace:
    """A message of ours that can be edited."""

    platform: str
    channel: str
    message: str
    bot_token_env: str

    @classmethod
    def nowhere(cls) -> "ChatPlace":
        """Return the place of a message that could not be posted."""
        return cls(platform="", channel="", message="", bot_token_env="")


@dataclass(frozen=True, slots=True)
class ProgressPoster:
    """Posts short messages of ours and edits them."""

    http: HttpSender
    environ: Mapping[str, str]
    slack_api: str = SLACK_API
    discord_api: str = DISCORD_API

    async def post(self, address: Mapping[str, object], text: str) -> ChatPlace:
        """Post into the thread of a message. Raises DeliveryFailed."""
        name, token = self._find_token(address.get("bot_token_env"))
        channel, thread = str(address.get("channel")), str(address.get("thread"))
        if address.get("platform") == "slack":
            content: dict[str, object] = {"channel": channel, "thread_ts": thread, "text": escape(text)}
            answer = await self.http.post(_slack_json("chat.postMessage", content, token, _TIMEOUT, self.slack_api))
            check_slack(answer)
            number = answer.get("ts") if isinstance(answer, dict) else None
            return ChatPlace(platform="slack", channel=channel, message=str(number or ""), bot_token_env=name)
        headers = {"Authorization": f"Bot {token}", "Content-Type": "application/json"}
        if address.get("has_thread") and thread != channel:
            if thread == address.get("message"):
                url = f"{self.discord_api}/channels/{channel}/messages/{thread}/threads"
                await _begin_thread(self.http, url, headers, _TIMEOUT)
            channel = thread
        url = f"{self.discord_api}/channels/{channel}/messages"
        post = HttpPost(url=url, body=_discord_text(text), headers=headers, timeout=_TIMEOUT, wants_answer=True)
        answer = await self.http.post(post)
        number = answer.get("id") if isinstance(answer, dict) else None
        return ChatPlace(platform="discord", channel=channel, message=str(number or ""), bot_token_env=name)

    async def edit(self, place: ChatPlace, text: str) -> None:
        """Raises DeliveryFailed."""
        _, token = self._find_token(place.bot_token_env)
        if place.platform == "slack":
            content: dict[str, object] = {"channel": place.channel, "ts": place.message, "text": escape(text)}
            check_slack(await self.http.post(_slack_json("chat.update", content, token, _TIMEOUT, self.slack_api)))
            return
        url = f"{self.discord_api}/channels/{place.channel}/messages/{place.message}"
        headers = {"Authorization": f"Bot {token}", "Content-Type": "application/json"}
        post = HttpPost(url=url, method="PATCH", body=_discord_text(text), headers=headers, timeout=_TIMEOUT)
        await self.http.post(post)

    def _find_token(self, name: object) -> tuple[str, str]:
        token = self.environ.get(str(name), "")
        if not token:
            raise DeliveryFailed(f"The environment variable {name} is not set.", is_receiver_down=False)
        return str(name), token


def _discord_text(text: str) -> bytes:
    return json.dumps({"content": neutralise(text), "allowed_mentions": {"parse": []}}).encode()
