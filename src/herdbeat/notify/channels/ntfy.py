"""ntfy: a topic of a server. As JSON, so that no text becomes part of a header."""

import json
from datetime import timedelta

from herdbeat.notify.base import OutgoingMessage
from herdbeat.notify.http import HttpPost

NTFY_SERVER = "https://ntfy.sh"


def build_ntfy(message: OutgoingMessage, token: str, timeout: timedelta) -> HttpPost:
    content: dict[str, object] = {
        "topic": message.option("topic"),
        "title": message.title,
        "message": message.text,
        **({"click": message.url} if message.url else {}),
    }
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    server = message.option("url", NTFY_SERVER).rstrip("/")
    return HttpPost(url=server, body=json.dumps(content).encode(), headers=headers, timeout=timeout)
