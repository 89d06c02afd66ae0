"""Slack: an incoming webhook by its URL, or a post of a bot into a channel."""

import json
from datetime import timedelta

from herdbeat.notify.base import DeliveryFailed, OutgoingMessage
from herdbeat.notify.http import HttpPost

SLACK_API = "https://slack.com/api"


def build_slack(message: OutgoingMessage, token: str, timeout: timedelta, api: str = SLACK_API) -> HttpPost:
    """Return the request. Markup is off and `<` is escaped, so no text can mention a channel or hide a link."""
    link = f"\n{escape(message.url)}" if message.url else ""
    content: dict[str, object] = {
        "text": escape(message.text) + link,
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "link_names": False,
    }
    headers = {"Content-Type": "application/json; charset=utf-8"}
    url = message.option("url")
    if not url:
        url = f"{api}/chat.postMessage"
        content |= {"channel": message.option("channel_id"), "parse": "none"}
        headers["Authorization"] = f"Bearer {token}"
    return HttpPost(url=url, body=json.dumps(content).encode(), headers=headers, timeout=timeout, wants_answer=True)


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check_slack(answer: object, *, is_webhook: bool = False) -> None:
    """Slack answers 200 also to what it refuses. Raises DeliveryFailed with its word for why.

    An incoming webhook says "ok" and no more; what else answers without JSON is not Slack's API.
    """
    if isinstance(answer, dict) and answer.get("ok") is not True:
        raise DeliveryFailed(f"Slack refused the message: {str(answer.get('error'))[:100]}.", is_receiver_down=False)
    if not is_webhook and not isinstance(answer, dict):
        raise DeliveryFailed("The answer is not one of Slack's API.")
