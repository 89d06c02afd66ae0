"""A Slack beside the test: Socket Mode, messages, edits and files, with a log of what it was asked."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import WSMsgType, web

BOT_USER = "U0BOT"
T = TypeVar("T")


@dataclass
class FakeSlack:
    """`acks` are the envelopes that were acknowledged, `calls` the requests: method and body. Used by one test."""

    loop: asyncio.AbstractEventLoop
    port: int = 0
    acks: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    connections: int = 0
    refusals: int = 0
    """So many times the next connections are refused."""
    is_mute: bool = False
    """A mute one opens connections and says nothing, not even to pings."""
    files: list[str] = field(default_factory=list)
    _sockets: list[web.WebSocketResponse] = field(default_factory=list)
    _numbers: int = 0

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def is_connected(self) -> bool:
        return any(not each.closed for each in self._sockets)

    def posts(self) -> list[dict[str, Any]]:
        return [body for method, body in self.calls if method == "chat.postMessage"]

    def answers(self) -> list[str]:
        """Return the texts that were posted, without those about progress."""
        return [each["text"] for each in self.posts() if not each["text"].startswith("Working on it")]

    def send(self, payload: dict[str, Any], envelope: str = "") -> str:
        """Send an event over the newest connection, and return its envelope."""
        self._numbers += 1
        envelope = envelope or f"envelope-{self._numbers}"
        frame = {"envelope_id": envelope, "type": "events_api", "payload": payload, "accepts_response_payload": False}
        self._run(self._send(frame))
        return envelope

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """Ask for a new connection and end this one, as Slack does every few hours."""
        self._run(self._disconnect(reason))

    def drop(self) -> None:
        """Close all connections without a word."""
        self._run(self._drop())

    async def _send(self, frame: dict[str, Any]) -> None:
        socket = [each for each in self._sockets if not each.closed][-1]
        await socket.send_str(json.dumps(frame))

    async def _disconnect(self, reason: str) -> None:
        ending = [each for each in self._sockets if not each.closed]
        await self._send({"type": "disconnect", "reason": reason})
        for each in ending:
            await each.close()

    async def _drop(self) -> None:
        for each in self._sockets:
            if not each.closed and each._writer is not None:
                each._writer.transport.abort()
        self._sockets.clear()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    async def open_connection(self, request: web.Request) -> web.Response:
        if self.refusals > 0:
            self.refusals -= 1
            return web.json_response({"ok": False, "error": "internal_error"})
        assert request.headers["Authorization"] == "Bearer xapp-secret"
        return web.json_response({"ok": True, "url": f"ws://127.0.0.1:{self.port}/link"})

    async def serve_socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=not self.is_mute)
        await socket.prepare(request)
        self.connections += 1
        self._sockets.append(socket)
        if not self.is_mute:
            hello = {"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}, "debug_info": {}}
            await socket.send_str(json.dumps(hello))
        async for message in socket:
            if message.type is WSMsgType.TEXT and message.data.startswith("{"):
                self.acks.append(json.loads(message.data).get("envelope_id", ""))
        return socket

    async def call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        is_json = "json" in request.headers.get("Content-Type", "")
        body = await request.json() if is_json else dict(await request.post())
        assert request.headers["Authorization"] == "Bearer xoxb-secret"
        self.calls.append((method, body))
        self._numbers += 1
        if method == "files.getUploadURLExternal":
            return web.json_response(
                {"ok": True, "upload_url": f"http://127.0.0.1:{self.port}/upload", "file_id": "F1"}
            )
        return web.json_response({"ok": True, "channel": body.get("channel"), "ts": f"1800000000.{self._numbers:06}"})

    async def upload(self, request: web.Request) -> web.Response:
        self.files.append((await request.read()).decode())
        return web.Response(text="OK")


@contextmanager
def run_slack() -> Iterator[FakeSlack]:
    loop = asyncio.new_event_loop()
    slack = FakeSlack(loop)

    async def serve() -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/api/apps.connections.open", slack.open_connection)
        app.router.add_get("/link", slack.serve_socket)
        app.router.add_post("/upload", slack.upload)
        app.router.add_post("/api/{method}", slack.call)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        slack.port = runner.addresses[0][1]
        return runner

    thread = threading.Thread(target=loop.run_forever, name="slack")
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(serve(), loop).result(60)
    try:
        yield slack
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def build_event(text: str, *, at: str = "1700000000.000100", **event: Any) -> dict[str, Any]:
    """Return an event of a post in the channel C1 by U1, as Slack sends it."""
    kind = event.pop("type", "app_mention")
    event_id = event.pop("event_id", f"Ev-{at}-{kind}")
    return {
        "type": "event_callback",
        "team_id": "T1",
        "api_app_id": "A1",
        "event_id": event_id,
        "event_time": 1700000000,
        "authorizations": [{"team_id": "T1", "user_id": BOT_USER, "is_bot": True}],
        "event": {"type": kind, "user": "U1", "text": text, "ts": at, "channel": "C1", **event},
    }
