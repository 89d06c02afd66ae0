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

SURGE_PERIOD_S, SURGE_START_S, SURGE_DURATION_S = 180.0, 20.0, 45.0
OUTAGE_PERIOD_S, OUTAGE_DURATION_S = 40.0, 15.0
_MAX_REQUEST_BYTES = 64 * 1024


class DemoResponse(NamedTuple):
    status: HTTPStatus
    body: dict[str, object]


def build_response(path: str, seconds: float) -> DemoResponse:
    """What an endpoint says so many seconds after the start."""
    if path == "/queue":
        is_surging = SURGE_START_S <= seconds % SURGE_PERIOD_S < SURGE_START_S + SURGE_DURATION_S
        return DemoResponse(HTTPStatus.OK, {"queue_depth": 150 if is_surging else 12 + int(seconds) % 5})
    if path == "/health":
        return DemoResponse(HTTPStatus.OK, {"ok": True})
    if path == "/checkout":
        if seconds % OUTAGE_PERIOD_S > OUTAGE_PERIOD_S - OUTAGE_DURATION_S:
            return DemoResponse(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the till is being emptied"})
        return DemoResponse(HTTPStatus.OK, {"ok": True, "open_carts": 3 + int(seconds) % 4})
    return DemoResponse(HTTPStatus.NOT_FOUND, {"error": "there are /queue, /health and /checkout"})


def open_socket(port: int = PORT) -> socket.socket:
    """A socket that listens on the loopback, at the port if it is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError:
        listening.bind((HOST, 0))
    listening.listen()  # the first beats are due at once: who calls before we answer waits, and is not refused
    return listening


@asynccontextmanager
async def serve_endpoints(listening: socket.socket) -> AsyncIterator[None]:
    """Answer until the block is left. By hand, for a web framework would be the slowest import of the demo."""
    clock = asyncio.get_running_loop().time
    started_at = clock()

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode(errors="replace").partition("?")[0]
            writer.write(_encode_response(build_response(path, clock() - started_at)))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            return  # somebody else has knocked, and spoke no HTTP
        finally:
            writer.close()

    server = await asyncio.start_server(handle_connection, sock=listening, limit=_MAX_REQUEST_BYTES)
    try:
        yield
    finally:
        server.close()


def _encode_response(response: DemoResponse) -> bytes:
    body = json.dumps(response.body).encode()
    head = f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
