"""A Discord beside the test: its REST API, and the gateway with heartbeats, resumed and invalid sessions."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import WSMsgType, web

BOT_ID, GUILD_ID, CHANNEL_ID, USER_ID = "900", "100", "200", "300"
TOKEN = "discord-secret"
HEARTBEAT_MS = 200
_DISPATCH, _HEARTBEAT, _IDENTIFY, _RESUME, _RECONNECT, _INVALID_SESSION, _HELLO, _HEARTBEAT_ACK = (
    0,
    1,
    2,
    6,
    7,
    9,
    10,
    11,
)
T = TypeVar("T")


@dataclass
class FakeDiscord:
    """`calls` are the requests by REST: method, path, body. `frames` are those of the client, by their number."""

    loop: asyncio.AbstractEventLoop
    port: int = 0
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    frames: list[tuple[int, Any]] = field(default_factory=list)
    sessions: int = 0
    resumes: int = 0
    refuses_resumes: bool = False
    is_behind_proxy: bool = False
    _socket: web.WebSocketResponse | None = None
    _sequence: int = 0
    _missed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v10"

    @property
    def gateway(self) -> str:
        return f"ws://127.0.0.1:{self.port}/gateway"

    @property
    def is_connected(self) -> bool:
        return self._socket is not None and not self._socket.closed

    def count(self, operation: int) -> int:
        return sum(number == operation for number, _ in self.frames)

    def posts(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the messages of the bot with their channel, without those about progress."""
        return [
            (path.split("/")[2], body)
            for method, path, body in self.calls
            if method == "POST" and path.endswith("/messages") and not body["content"].startswith("Working on it")
        ]

    def send(self, text: str, message_id: str, **changes: Any) -> None:
        """Dispatch a message; while nobody is connected, it is kept for a client that resumes."""
        message = {
            "id": message_id,
            "channel_id": CHANNEL_ID,
            "guild_id": GUILD_ID,
            "author": {"id": USER_ID, "username": "ann", "discriminator": "0", "avatar": None},
            "member": {"roles": [], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False},
            "content": text,
            "timestamp": "2026-01-01T00:00:00+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [{"id": BOT_ID, "username": "bot", "discriminator": "0", "avatar": None, "bot": True}]
            if f"<@{BOT_ID}>" in text
            else [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            **changes,
        }
        if changes.get("guild_id", GUILD_ID) is None:
            del message["guild_id"], message["member"]
        self._run(self._dispatch("MESSAGE_CREATE", message))

    def ask_to_reconnect(self) -> None:
        self._run(self._send_frame({"op": _RECONNECT, "d": None}))

    def drop(self) -> None:
        """End the connection without a word."""
        self._run(self._drop())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    async def _drop(self) -> None:
        if self._socket is not None:
            await self._socket.close(code=4000)

    async def _dispatch(self, name: str, data: dict[str, Any]) -> None:
        self._sequence += 1
        frame = {"op": _DISPATCH, "t": name, "s": self._sequence, "d": data}
        if self.is_connected:
            await self._send_frame(frame)
        else:
            self._missed.append(frame)

    async def _send_frame(self, frame: dict[str, Any]) -> None:
        assert self._socket is not None
        await self._socket.send_str(json.dumps(frame))

    async def serve_gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(json.dumps({"op": _HELLO, "d": {"heartbeat_interval": HEARTBEAT_MS}}))
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            frame = json.loads(message.data)
            self.frames.append((frame["op"], frame.get("d")))
            await self._answer(socket, frame)
        return socket

    async def _answer(self, socket: web.WebSocketResponse, frame: dict[str, Any]) -> None:
        if frame["op"] == _HEARTBEAT:
            await socket.send_str(json.dumps({"op": _HEARTBEAT_ACK}))
        elif frame["op"] == _IDENTIFY:
            assert frame["d"]["token"] == TOKEN
            await self._begin(socket)
        elif frame["op"] == _RESUME and self.refuses_resumes:
            self.refuses_resumes = False
            await socket.send_str(json.dumps({"op": _INVALID_SESSION, "d": False}))
        elif frame["op"] == _RESUME:
            assert (frame["d"]["token"], frame["d"]["session_id"]) == (TOKEN, f"session-{self.sessions}")
            self.resumes += 1
            self._socket = socket
            missed, self._missed = self._missed, []
            for each in missed:
                await self._send_frame(each)
            await self._dispatch("RESUMED", {})

    async def _begin(self, socket: web.WebSocketResponse) -> None:
        self.sessions += 1
        self._socket, self._missed = socket, []
        ready = {
            "v": 10,
            "user": {"id": BOT_ID, "username": "bot", "discriminator": "0", "avatar": None, "bot": True},
            "guilds": [{"id": GUILD_ID, "unavailable": True}],
            "session_id": f"session-{self.sessions}",
            "resume_gateway_url": self.gateway,
            "application": {"id": BOT_ID, "flags": 0},
        }
        channel = {"id": CHANNEL_ID, "type": 0, "name": "support", "position": 0, "permission_overwrites": []}
        thread = {
            "id": "201",
            "type": 11,
            "name": "talk",
            "parent_id": CHANNEL_ID,
            "owner_id": USER_ID,
            "message_count": 1,
            "member_count": 1,
            "thread_metadata": {
                "archived": False,
                "auto_archive_duration": 1440,
                "archive_timestamp": "2026-01-01T00:00:00+00:00",
            },
        }
        everyone = {"id": GUILD_ID, "name": "@everyone", "permissions": "0", "position": 0, "color": 0, "hoist": False}
        guild = {
            "id": GUILD_ID,
            "name": "us",
            "owner_id": USER_ID,
            "member_count": 2,
            "roles": [{**everyone, "managed": False, "mentionable": False}],
            "channels": [channel],
            "threads": [thread],
            "members": [],
            "emojis": [],
            "features": [],
        }
        await self._dispatch("READY", ready)
        await self._dispatch("GUILD_CREATE", guild)

    async def serve_rest(self, request: web.Request) -> web.Response:
        path = "/" + request.match_info["path"]
        if self.is_behind_proxy:
            return web.Response(text="<html>Please log in</html>", content_type="text/html")
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return _answer({"message": "401: Unauthorized", "code": 0}, 401)
        if path == "/users/@me":
            return _answer({"id": BOT_ID, "username": "bot", "discriminator": "0", "avatar": None, "bot": True})
        if path == "/oauth2/applications/@me":
            return _answer(_APPLICATION)
        body = await request.json() if request.content_type == "application/json" else {"content": "", "form": True}
        self.calls.append((request.method, path, body))
        return _answer({"id": str(5_000 + len(self.calls)), "channel_id": path.split("/")[2]})


def _answer(data: dict[str, Any], status: int = 200) -> web.Response:
    """Discord names no charset, and its client looks for exactly that."""
    return web.Response(body=json.dumps(data).encode(), status=status, headers={"Content-Type": "application/json"})


_APPLICATION = {
    "id": BOT_ID,
    "name": "herdbeat",
    "icon": None,
    "description": "",
    "bot_public": False,
    "bot_require_code_grant": False,
    "verify_key": "00",
    "team": None,
    "flags": 0,
    "owner": {"id": USER_ID, "username": "ann", "discriminator": "0", "avatar": None},
}


@contextmanager
def run_discord() -> Iterator[FakeDiscord]:
    """Yield a server in a thread of its own, so that a loop under test does not answer itself."""
    loop = asyncio.new_event_loop()
    fake = FakeDiscord(loop)
    thread = threading.Thread(target=loop.run_forever, name="discord")
    thread.start()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/gateway", fake.serve_gateway)
        app.router.add_get("/gateway/", fake.serve_gateway)
        app.router.add_route("*", "/api/v10/{path:.*}", fake.serve_rest)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        fake.port = runner.addresses[0][1]
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    try:
        yield fake
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
