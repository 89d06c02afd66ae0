"""The demo fleet: where its files are, and the endpoints that it calls.

The endpoints listen on the loopback, in the process that runs the demo: a queue that surges, one that is healthy, one
that fails from time to time, and an inbox that takes every notification. Their responses
depend only on the time since they were started. The ledger of the demo is kept from one start to the next, so that
there is history to look at.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

FLEET_FILE = "herdbeat.yaml"
HOST = "127.0.0.1"
PORT = 32320
"""Tried first, so that the URLs in the fleet file stay the same from one demo to the next."""

SURGE_PERIOD_S, SURGE_START_S, SURGE_DURATION_S = 120.0, 6.0, 30.0
OUTAGE_PERIOD_S, OUTAGE_START_S, OUTAGE_DURATION_S = 40.0, 3.0, 15.0
_MAX_REQUEST_BYTES = 64 * 1024


def demo_folder(environ: Mapping[str, str]) -> Path:
    """Return a folder in the cache of this user: the next demo finds it, and deleting it does no harm."""
    cache = environ.get("XDG_CACHE_HOME", "")
    home = Path(cache) if cache.startswith("/") else Path(environ.get("HOME") or "~").expanduser() / ".cache"
    return home / "herdbeat" / "demo"


def write_fleet(folder: Path, port: int) -> Path:
    """Write the fleet file, with its endpoints at that port, unless it is unchanged. Returns its path."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shipped = (files("herdbeat.demo") / "fleet.yaml").read_text(encoding="utf-8")
    text = shipped.replace(":PORT/", f":{port}/")
    path = folder / FLEET_FILE
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


class DemoResponse(NamedTuple):
    status: HTTPStatus
    body: dict[str, object]


def build_response(path: str, seconds: float) -> DemoResponse:
    """Return the response of an endpoint, so many seconds after the start."""
    if path == "/queue":
        is_surging = SURGE_START_S <= seconds % SURGE_PERIOD_S < SURGE_START_S + SURGE_DURATION_S
        return DemoResponse(HTTPStatus.OK, {"queue_depth": 150 if is_surging else 12 + int(seconds) % 5})
    if path in ("/health", "/inbox"):
        return DemoResponse(HTTPStatus.OK, {"ok": True})
    if path == "/checkout":
        if OUTAGE_START_S <= seconds % OUTAGE_PERIOD_S < OUTAGE_START_S + OUTAGE_DURATION_S:
            return DemoResponse(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "temporarily unavailable"})
        return DemoResponse(HTTPStatus.OK, {"ok": True, "open_carts": 3 + int(seconds) % 4})
    return DemoResponse(HTTPStatus.NOT_FOUND, {"error": "not found; use /queue, /health or /checkout"})


def open_socket(port: int = PORT) -> socket.socket:
    """Return a socket that listens on the loopback, at `port` if it is free, else at any port."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError:
        listening.bind((HOST, 0))
    listening.listen()  # already now: the first beats are due at once, and a request that comes early waits
    return listening


@asynccontextmanager
async def serve_endpoints(listening: socket.socket) -> AsyncIterator[None]:
    """Answer requests until the block is left. Without a web framework, which would be the demo's slowest import."""
    clock = asyncio.get_running_loop().time
    started_at = clock()

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(_read_body_length(head))  # an unread body would cut the answer off
            path = head.split(b" ", 2)[1].decode(errors="replace").partition("?")[0]
            writer.write(_encode_response(build_response(path, clock() - started_at)))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            return  # the client has gone, or did not speak HTTP
        finally:
            writer.close()

    server = await asyncio.start_server(handle_connection, sock=listening, limit=_MAX_REQUEST_BYTES)
    try:
        yield
    finally:
        server.close()


def _read_body_length(head: bytes) -> int:
    """Return the length that the head of a request states, up to what we read at all."""
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit():
            return min(int(value), _MAX_REQUEST_BYTES)
    return 0


def _encode_response(response: DemoResponse) -> bytes:
    body = json.dumps(response.body).encode()
    head = f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
