"""Sends requests to an ASGI application in this process, from any address and with any headers."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class AsgiResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(slots=True, kw_only=True)
class AsgiClient:
    """A client at an address. `headers` go with every request."""

    app: Any
    peer: str = "127.0.0.1"
    host: str = "127.0.0.1:3232"
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> AsgiResponse:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: object = None, **headers: str) -> AsgiResponse:
        return self.send("POST", path, {} if body is None else body, headers)

    def patch(self, path: str, body: object, **headers: str) -> AsgiResponse:
        return self.send("PATCH", path, body, headers)

    def delete(self, path: str, **headers: str) -> AsgiResponse:
        return self.send("DELETE", path, headers=headers)

    def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> AsgiResponse:
        """Names of headers may be given as keywords: `if_match` is If-Match. A body that is bytes is sent as it is."""
        named = {name.replace("_", "-").lower(): value for name, value in {**self.headers, **(headers or {})}.items()}
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        named = {"host": self.host, **named}
        if content:
            named.setdefault("content-type", "application/json")
            named.setdefault("content-length", str(len(content)))
        return self.send_raw(method, path, content, list(named.items()))

    def send_raw(self, method: str, path: str, content: bytes, headers: Sequence[tuple[str, str]]) -> AsgiResponse:
        """The headers as they are, also doubled ones."""
        return asyncio.run(self._exchange(method, path, content, headers))

    async def _exchange(
        self, method: str, path: str, content: bytes, headers: Sequence[tuple[str, str]]
    ) -> AsgiResponse:
        address = urlsplit(path)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": address.path,
            "raw_path": quote(address.path).encode(),
            "root_path": "",
            "query_string": address.query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            "client": (self.peer, 50_000),
            "server": ("127.0.0.1", 3232),
        }
        messages: list[dict[str, Any]] = []
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                await asyncio.sleep(3600)
            sent = True
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        start = next(each for each in messages if each["type"] == "http.response.start")
        answer = {name.decode(): value.decode() for name, value in start["headers"]}
        body = b"".join(each.get("body", b"") for each in messages if each["type"] == "http.response.body")
        return AsgiResponse(status=start["status"], headers=answer, body=body)
