"""How the application is served: in a process of its own, or embedded in another application (`Herd.asgi()`).

The process reads its spec from standard input, serves on the socket it was given, and answers pings. It ends when its
standard input closes, which is when its parent has ended, however that happened.
"""

import asyncio
import logging
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import h11
import uvicorn
from fastapi import FastAPI, Request
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from herdbeat.bootstrap.log_output import LogFormat, log_unexpected_errors, make_handler
from herdbeat.bootstrap.server_process import PING, PONG, READY
from herdbeat.bootstrap.server_spec import ServerSpec, open_server_handle
from herdbeat.clock import SystemClock
from herdbeat.platform import yield_to_others
from herdbeat.server.auth import Identify
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.commands.base import Actor
from herdbeat.service.commands.lock_turns import LockTurns
from herdbeat.service.commands.tokens import build_actor, parse_token_scope

GRACEFUL_STOP_S = 2
MAX_KEEP_ALIVE_S = 30
MAX_CONNECTIONS = 4_000
MAX_OPEN_FILES = MAX_CONNECTIONS + 1_000
REQUEST_TIMEOUT_S = 40.0
"""Longer than a webhook waits for its body: its sender gets an answer, and the operator a record of the call."""

UNREAD_TIMEOUT_S = 60.0
"""Seconds for a client to take something of what waits for it. One that takes nothing is cut off."""

NICENESS = 5
"""Added to that of the node, which has the first turn on a busy core: a page may wait for a beat, not a beat for it."""


def main(create_app: Callable[[FleetGateway], FastAPI]) -> None:
    spec = ServerSpec.from_line(sys.stdin.buffer.readline().decode())
    yield_to_others(NICENESS)
    _raise_file_limit()
    _log_to_stderr(LogFormat(spec.log_format))
    handle = replace(open_server_handle(spec, SystemClock(), os.environ), lock_turns=LockTurns())
    gateway = FleetGateway(spec, handle, os.environ)
    asyncio.run(serve(spec, gateway, create_app(gateway)))


async def serve(spec: ServerSpec, gateway: FleetGateway, app: FastAPI) -> None:
    """Serve until standard input closes."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=TimedProtocol,
        ws="none",
        lifespan="off",  # nothing to open: parts start with the first request
        log_config=None,
        access_log=False,
        proxy_headers=False,  # who may speak for a client is decided by auth.py
        server_header=False,
        date_header=True,
        timeout_keep_alive=MAX_KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_STOP_S,
        limit_concurrency=MAX_CONNECTIONS,
        ssl_certfile=_resolve(spec, spec.settings.tls_cert),
        ssl_keyfile=_resolve(spec, spec.settings.tls_key),
    )
    server = uvicorn.Server(config)
    listener = socket.socket(fileno=spec.socket_fd)
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(_answer_parent(server), name="parent")
        await server.serve(sockets=[listener])
        watch.cancel()
    gateway.close()


_INCOMPLETE = (h11.IDLE, h11.SEND_BODY)


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit from the first byte of a request, or the connection, to its last byte.

    uvicorn waits for the rest of a request without end. A few thousand connections with half a request each, which
    cost their sender nothing, kept all others out. So did clients that never read their answers.
    """

    _deadline: asyncio.TimerHandle | None = None
    _progress_check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _limit_unread(transport)
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_progress_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_progress_check()

    def _check_progress_later(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._end_progress_check()
        self._progress_check = self.loop.call_later(UNREAD_TIMEOUT_S, self._check_progress, waiting)

    def _check_progress(self, before: int) -> None:
        """A slow client goes on, as long as it takes anything."""
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._check_progress_later()

    def _end_progress_check(self) -> None:
        if self._progress_check is not None:
            self._progress_check.cancel()
            self._progress_check = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_watch()
        self._end_progress_check()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in _INCOMPLETE:
            self._end_watch()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.abort)

    def _end_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _limit_unread(transport: asyncio.Transport) -> None:
    """Let the kernel give up a connection whose client acknowledges or takes nothing.

    Megabytes fit into its buffers, and it keeps them also after we have closed: only it sees that a client reads
    nothing.
    """
    connection = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it
    if option is not None and connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, option, int(UNREAD_TIMEOUT_S * 1_000))


async def _answer_parent(server: uvicorn.Server) -> None:
    """Say that the server is ready, answer pings, and end the server when the parent is gone."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while not server.started:  # noqa: ASYNC110 -- uvicorn has no event for it
        await asyncio.sleep(0.02)
    _write(READY)
    while line := await reader.readline():
        if line == PING:
            _write(PONG)
    logging.getLogger("uvicorn.error").disabled = True  # it reports each stream that ends now as a failure
    server.should_exit = True
    server.force_exit = True  # the port must be free for the next start: streams are cut, not waited for


def _write(line: bytes) -> None:
    """Write to the parent at once. If it is gone, the end of standard input says so, too."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), line)


def _resolve(spec: ServerSpec, path: str) -> str | None:
    """Return a path of the fleet file, which is relative to that file."""
    return os.path.join(spec.home, path) if path else None  # noqa: PTH118 -- uvicorn takes a text


def _raise_file_limit() -> None:
    """Most shells allow 1,024 open files, and every reader of events is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _log_to_stderr(log_format: LogFormat) -> None:
    handler = make_handler(sys.stderr, log_format, "server: %(message)s")
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(handler.level)
    if log_format is LogFormat.JSON:
        log_unexpected_errors()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


IdentifyUser = Callable[[Request], tuple[str, str] | None]
"""Returns the name and the scope of the user who sends a request; None if it is not known."""

CreateApp = Callable[[FleetGateway, Identify | None], FastAPI]
"""Makes the application that is embedded."""


class EmbeddedServer:
    """An ASGI application that opens the fleet with its first request: the herd may start later than the application.

    Without `identify` only tokens get in: a request from this machine to the host application is not authenticated.
    """

    def __init__(
        self, load_spec: Callable[[], ServerSpec], create_app: CreateApp, identify: IdentifyUser | None = None
    ) -> None:
        self._load_spec = load_spec
        self._create_app = create_app
        self._identify = identify
        self._app: FastAPI | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return  # a mounted application gets none; one that is served alone needs nothing
        await self._open()(scope, receive, send)

    def _open(self) -> FastAPI:
        with self._lock:
            if self._app is None:
                spec = self._load_spec()
                gateway = FleetGateway(spec, open_server_handle(spec, SystemClock(), os.environ), os.environ)
                self._app = self._create_app(gateway, self._identify and self._find_actor)
            return self._app

    def _find_actor(self, request: Request) -> Actor | None:
        assert self._identify is not None
        found = self._identify(request)
        return None if found is None else build_actor(found[0], parse_token_scope(found[1]))
