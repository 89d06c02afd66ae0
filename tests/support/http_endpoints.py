"""Endpoints for tests, correct and faulty: servers on loopback that send exactly the bytes a test chooses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from herdbeat.domain.target import EndpointSpec

Responder = Callable[[asyncio.StreamWriter], Awaitable[None]]
CERTIFICATE = Path(__file__).parent / "self_signed.pem"
LOOPBACK = "127.0.0.1"


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """A server and what it has received: head and body of each request, and whether its callers have closed the
    connection.
    """

    port: int = 0
    requests: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/", *, scheme: str = "http", host: str = LOOPBACK) -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def get(self, path: str = "/") -> EndpointSpec:
        return EndpointSpec(url=self.url(path))


@asynccontextmanager
async def serve_endpoint(speak: Responder, *, has_tls: bool = False) -> AsyncIterator[Endpoint]:
    """Serve an endpoint that reads a request and then responds. `left` is set once a caller has hung up."""
    endpoint = Endpoint()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            endpoint.requests.append(await _read_request(reader))
            await speak(writer)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            endpoint.left.set()
            writer.close()

    context = None
    if has_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
    server = await asyncio.start_server(answer, LOOPBACK, 0, ssl=context)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        server.close()
        await server.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> str:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next((int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:")), 0)
    return head + (await reader.readexactly(length)).decode()


def respond_raw(text: str | bytes) -> Responder:
    """Send these bytes and close the connection."""
    data = text.encode() if isinstance(text, str) else text

    async def speak(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    return speak


def respond(body: str | bytes = "", status: str = "200 OK", **headers: str) -> Responder:
    """Return a well-formed response. Header names are written with underscores."""
    data = body.encode() if isinstance(body, str) else body
    given = {"Content-Length": str(len(data))} | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return respond_raw(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data)
