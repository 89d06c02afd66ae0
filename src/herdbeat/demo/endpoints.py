"""Three endpoints on the loopback, inside the process that runs the demo: a queue that surges, one that is well, one
that breaks now and then. What they answer is a function of the time since they were opened."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple

HOST = "127.0.0.1"
PORT = 32320
"""Asked for first, so that the fleet of the next demo is the same one; another is taken if it is not free."""

SURGE_EVERY, SURGE_AT, SURGE_LASTS = 180.0, 20.0, 45.0
BREAK_EVERY, BREAK_LASTS = 40.0, 15.0
_LONGEST = 64 * 1024


class Answer(NamedTuple):
    status: HTTPStatus
    body: dict[str, object]


def answer(path: str, seconds: float) -> Answer:
    """What an endpoint says so many seconds after the start."""
    if path == "/queue":
        surges = SURGE_AT <= seconds % SURGE_EVERY < SURGE_AT + SURGE_LASTS
        return Answer(HTTPStatus.OK, {"queue_depth": 150 if surges else 12 + int(seconds) % 5})
    if path == "/health":
        return Answer(HTTPStatus.OK, {"ok": True})
    if path == "/checkout":
        if seconds % BREAK_EVERY > BREAK_EVERY - BREAK_LASTS:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the till is being emptied"})
        return Answer(HTTPStatus.OK, {"ok": True, "open_carts": 3 + int(seconds) % 4})
    return Answer(HTTPStatus.NOT_FOUND, {"error": "there are /queue, /health and /checkout"})


def open_socket(port: int = PORT) -> socket.socket:
    """A socket that listens on the loopback, at the port if it is free."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((HOST, port))
    except OSError:
        opened.bind((HOST, 0))
    opened.listen()  # the first beats are due at once: who calls before we answer waits, and is not refused
    return opened


@asynccontextmanager
async def answering(opened: socket.socket) -> AsyncIterator[None]:
    """Answer until the block is left. By hand, for a web framework would be the slowest import of the demo."""
    clock = asyncio.get_running_loop().time
    began = clock()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode(errors="replace").partition("?")[0]
            writer.write(_written(answer(path, clock() - began)))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            return  # somebody else has knocked, and spoke no HTTP
        finally:
            writer.close()

    server = await asyncio.start_server(converse, sock=opened, limit=_LONGEST)
    try:
        yield
    finally:
        server.close()


def _written(said: Answer) -> bytes:
    body = json.dumps(said.body).encode()
    head = f"HTTP/1.1 {said.status.value} {said.status.phrase}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
