"""The answering side: one line of JSON in, one line of JSON out, for this user alone."""

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from herdbeat.codes import Code
from herdbeat.errors import HerdbeatError, UsageError
from herdbeat.faces.local.place import forget_place, make_place

log = logging.getLogger(__name__)

LONGEST_LINE = 64 * 1024

Request = Mapping[str, Any]
Handler = Callable[[Request], Awaitable[Mapping[str, object]]]


@asynccontextmanager
async def listening(state_dir: Path, handlers: Mapping[str, Handler]) -> AsyncIterator[Path]:
    """Answer requests `{"do": name, …}` by the handler of that name, until the block is left."""
    place = make_place(state_dir)
    conversations: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        task.add_done_callback(conversations.discard)
        # Only the end of the block cancels it, and nobody waits for its answer. Left to go through, Python 3.11 printed
        # a traceback of its own below the last word of `up`, whenever a command still held its connection.
        with suppress(asyncio.CancelledError):
            await _converse(reader, writer, handlers)

    server = await asyncio.start_unix_server(answer, sock=_open(place), limit=LONGEST_LINE)
    try:
        yield place
    finally:
        # Who asked for the stop may still hold a connection: it is ended here, not waited for.
        server.close()
        for each in conversations:
            each.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
        forget_place(state_dir)


def _open(place: Path) -> socket.socket:
    """Made beside its place, closed to others, then moved there: nobody ever finds it open, and a stale one is gone."""
    making = place.with_name(f"{place.name}.new")
    making.unlink(missing_ok=True)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    opened.bind(os.fspath(making))
    making.chmod(0o600)
    opened.listen(64)
    making.replace(place)
    return opened


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Mapping[str, Handler]
) -> None:
    try:
        while line := await _line(reader):
            await _say(writer, await _answer(line, handlers))
    except UsageError as error:
        await _say(writer, _problem(error))
    except ConnectionError:
        return
    finally:
        writer.close()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Empty at the end. Raises UsageError for a line that is longer than anything we were ever sent."""
    try:
        return await reader.readline()
    except ValueError as error:
        # Answered, not just hung up on: the command took silence for a fleet that is down, and said to start it.
        message = f"The request is longer than {LONGEST_LINE // 1024} KiB."
        raise UsageError(message, hint="Shorten its texts, such as the reason.") from error


async def _say(writer: asyncio.StreamWriter, answer: Mapping[str, object]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()


async def _answer(line: bytes, handlers: Mapping[str, Handler]) -> Mapping[str, object]:
    try:
        request = _read(line, handlers)
        return {"ok": await handlers[request["do"]](request)}
    except HerdbeatError as error:
        return _problem(error)
    except Exception as error:
        log.exception("request failed request=%s", line[:200])
        return {"problem": {"code": Code.SCHEDULER, "detail": f"{type(error).__name__}: {error}", "hint": ""}}


def _problem(error: HerdbeatError) -> Mapping[str, object]:
    return {"problem": {"code": error.code, "detail": error.message, "hint": error.hint}}


def _read(line: bytes, handlers: Mapping[str, Handler]) -> Request:
    hint = f'Send one line of JSON with "do": {", ".join(handlers)}.'
    try:
        request = json.loads(line)
    except ValueError as error:
        raise UsageError("The request is not JSON.", hint=hint) from error
    if not isinstance(request, dict) or request.get("do") not in handlers:
        raise UsageError("The request names nothing that can be done here.", hint=hint)
    return request
