"""Messages as JSON over HTTP: Standard Webhooks (an id, a time, and a signature of both and the body), and ntfy.

ntfy takes JSON, too: then no text becomes part of a header.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from herdbeat.notify.base import OutgoingMessage
from herdbeat.notify.http import HttpPost

_SECRET_PREFIX = "whsec_"  # noqa: S105 -- the prefix, not a secret


def build_webhook(message: OutgoingMessage, secret: str, timeout: timedelta) -> HttpPost:
    """Return the request. Without a secret it has no signature."""
    body = json.dumps(dict(message.payload), separators=(",", ":")).encode()
    timestamp = int(message.now.timestamp())
    headers = message.spec.get("headers")
    own = {str(name): str(value) for name, value in headers.items()} if isinstance(headers, Mapping) else {}
    signature = {"webhook-signature": sign(secret, message.id, message.now, body)} if secret else {}
    return HttpPost(
        url=message.option("url"),
        method=message.option("method", "POST"),
        body=body,
        headers={
            **own,
            "Content-Type": "application/json",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            **signature,
        },
        timeout=timeout,
    )


def sign(secret: str, message_id: str, at: datetime, body: bytes) -> str:
    """Return the signature. A secret that begins with whsec_ is base64, as the standard has it; others are text."""
    content = b".".join((message_id.encode(), str(int(at.timestamp())).encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(decode_secret(secret), content, hashlib.sha256)).decode()}"


def decode_secret(secret: str) -> bytes:
    text = secret.removeprefix(_SECRET_PREFIX)
    if text == secret:
        return secret.encode()
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return secret.encode()


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
