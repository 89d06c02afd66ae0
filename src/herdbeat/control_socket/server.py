"""The server of the control socket: one line of JSON in, one line of JSON out, for this user alone.

It answers `ping`, `stop`, `metrics`, and `execute`, which carries every command.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from herdbeat import __version__
from herdbeat.control_socket.socket_path import prepare_socket_path, remove_socket
from herdbeat.domain.fleet import Fleet
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError, UsageError
from herdbeat.scheduler.node import Node
from herdbeat.service.commands.base import Actor, command_from_json, result_to_json
from herdbeat.service.commands.dispatch import EXECUTE, NodeDispatcher
from herdbeat.service.metrics import NodeMetrics
from herdbeat.service.serialize import JsonObject

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""A batch of webhook calls has a megabyte, one large call may have eight; escaped, that is several times as much."""

ControlRequest = Mapping[str, Any]
RequestHandler = Callable[[ControlRequest], Awaitable[Mapping[str, object]]]


@asynccontextmanager
async def open_control_socket(state_dir: Path, handlers: Mapping[str, RequestHandler]) -> AsyncIterator[Path]:
    """Answer requests `{"do": name, …}` by the handler of that name, until the block is left."""
    socket_path = prepare_socket_path(state_dir)
    connections: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        # Only the end of the block cancels it, and nobody waits for its answer. Raised further, it made Python 3.11
        # print a traceback of its own below the last line of `up`, whenever a command still held its connection.
        with suppress(asyncio.CancelledError):
            await _serve_connection(reader, writer, handlers)

    server = await asyncio.start_unix_server(answer, sock=_bind_socket(socket_path), limit=MAX_REQUEST_BYTES)
    try:
        yield socket_path
    finally:
        # The command that requested the stop may still hold a connection: it is closed here, not waited for.
        server.close()
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        remove_socket(state_dir)


def _bind_socket(socket_path: Path) -> socket.socket:
    """Bind beside the path, close it to others, then rename: it is never open to others, and replaces a stale one."""
    temporary_path = socket_path.with_name(f"{socket_path.name}.new")
    temporary_path.unlink(missing_ok=True)
    server_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server_socket.setblocking(False)
    server_socket.bind(os.fspath(temporary_path))
    temporary_path.chmod(0o600)
    server_socket.listen(64)
    temporary_path.replace(socket_path)
    return server_socket


async def _serve_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Mapping[str, RequestHandler]
) -> None:
    try:
        while line := await _read_line(reader):
            await _write_response(writer, await _handle_request(line, handlers))
    except UsageError as error:
        await _write_response(writer, _serialize_problem(error))
    except ConnectionError:
        return
    finally:
        writer.close()


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return one line, empty at the end. Raises UsageError for a line that is too long."""
    try:
        return await reader.readline()
    except ValueError as error:
        # Answered, not just closed: the command took silence for a fleet that is down, and said to start it.
        message = f"The request is longer than {MAX_REQUEST_BYTES // 1024} KiB."
        raise UsageError(message, hint="Shorten its strings, such as the reason.") from error


async def _write_response(writer: asyncio.StreamWriter, answer: Mapping[str, object]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()


async def _handle_request(line: bytes, handlers: Mapping[str, RequestHandler]) -> Mapping[str, object]:
    kind = ""
    try:
        request = _parse_request(line, handlers)
        kind = request["do"]
        return {"ok": await handlers[kind](request)}
    except HerdbeatError as error:
        return _serialize_problem(error)
    except Exception as error:  # around one request: a bug in one command must not end the fleet
        log.exception("request failed request=%s", kind)  # never its payload, which may hold a secret
        return {"problem": {"code": Code.SCHEDULER, "detail": f"{type(error).__name__}: {error}", "hint": ""}}


def _serialize_problem(error: HerdbeatError) -> Mapping[str, object]:
    return {"problem": {"code": error.code, "detail": error.message, "hint": error.hint}}


def _parse_request(line: bytes, handlers: Mapping[str, RequestHandler]) -> ControlRequest:
    hint = f'Send one line of JSON with "do": {", ".join(handlers)}.'
    try:
        request = json.loads(line)
    except ValueError as error:
        raise UsageError("The request is not JSON.", hint=hint) from error
    if not isinstance(request, dict) or request.get("do") not in handlers:
        raise UsageError('The request has no known "do" value.', hint=hint)
    return request


class ControlHandlers:
    """Answers for one running fleet."""

    def __init__(
        self, fleet: Fleet, node: Node, dispatcher: NodeDispatcher, metrics: NodeMetrics | None = None
    ) -> None:
        self._fleet = fleet
        self._node = node
        self._dispatcher = dispatcher
        self._metrics = metrics or NodeMetrics()

    @property
    def handlers(self) -> Mapping[str, RequestHandler]:
        return {"ping": self.ping, "stop": self.stop, "metrics": self.metrics, EXECUTE: self.execute}

    async def ping(self, request: ControlRequest) -> JsonObject:  # noqa: ARG002 - it carries nothing
        return {"pid": os.getpid(), "version": __version__, "fleet": self._fleet.name, "running": self._count_running()}

    async def stop(self, request: ControlRequest) -> JsonObject:
        """`timeout` in seconds, else the fleet's own; `force` cuts off what runs."""
        timeout = self._timeout(request)
        if request.get("force") is True:
            self._node.hard_stop()
        else:
            self._node.stop(timeout)
        return {"pid": os.getpid(), "running": self._count_running(), "timeout": timeout.total_seconds()}

    async def metrics(self, request: ControlRequest) -> JsonObject:  # noqa: ARG002 - it carries nothing
        return self._metrics.to_json()

    async def execute(self, request: ControlRequest) -> JsonObject:
        """`command` is what to do, `actor` who requests it, `id` what the same request has if it is sent again."""
        actor, command = Actor.from_json(request.get("actor")), command_from_json(request.get("command"))
        result = await self._dispatcher.run(actor, command, str(request.get("id") or ""))
        return {"pid": os.getpid(), "result": result_to_json(result)}

    def _timeout(self, request: ControlRequest) -> timedelta:
        seconds = request.get("timeout")
        if seconds is None:
            return self._fleet.stop_timeout
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
            raise UsageError("The timeout must be a number of seconds.", hint="Send for example 30.")
        return timedelta(seconds=seconds)

    def _count_running(self) -> int:
        return len(self._node.loop.runs_that_need_node()) if self._node.loop else 0
