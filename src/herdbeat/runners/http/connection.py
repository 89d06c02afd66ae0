"""One connection for one request: opened by the egress guard's sockets, read by aiohttp's parser.

aiohttp's session would do the same for three times the processor time. It is made for connections that are kept and
shared, with cookies, proxies, tracing and timeouts; a run needs none of these (docs/decisions/0020).
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from aiohappyeyeballs import AddrInfoType, start_connection
from aiohttp import ClientPayloadError
from aiohttp.http import HttpResponseParser, RawResponseMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

CHUNK_BYTES = 64 * 1024
"""The most that is read at once, and twice what a compressed body may expand to before it is read."""

_DIRECT_BYTES = 16 * 1024
"""A request up to this size fits into the buffer of any socket, so sending it never waits for the server."""

_NEXT_ADDRESS_DELAY_S = 0.25
"""After so long without a connection, the next address of a host is tried beside the first (RFC 8305)."""

_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR})
"""What `connect` returns for a connection that is not there yet, and has not failed either."""

_TLS = ssl.create_default_context()  # reads the certificates of this machine: the module is imported in a thread
_TLS.set_alpn_protocols(["http/1.1"])


class EndpointConnection(Protocol):
    """A connection on which one request is sent and its response received."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes:
        """Return what has arrived; empty at the end. Raises OSError if the connection breaks."""
        ...

    def close(self) -> None: ...


class SocketConnection:
    """A socket without a transport, which would cost as much as the rest of the request."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = sock
        self._loop = loop

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def receive(self) -> bytes:
        while True:
            # First, because an answer takes longer than the way back to here.
            await _wait_ready(self._loop, self._socket, self._loop.add_reader, self._loop.remove_reader)
            with suppress(BlockingIOError):
                return self._socket.recv(CHUNK_BYTES)

    def close(self) -> None:
        self._socket.close()


class StreamConnection:
    """For TLS, and for large bodies: a server may answer, and stop reading, before it has all of one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self) -> bytes:
        return await self._reader.read(CHUNK_BYTES)

    def close(self) -> None:
        self._writer.transport.abort()  # nothing is left to say, and a server that says nothing could delay `close`


async def open_connection(
    addresses: list[AddrInfoType],
    make_socket: Callable[[AddrInfoType], socket.socket],
    *,
    tls_host: str | None,
    request_bytes: int,
) -> EndpointConnection:
    """Connect to the first address that answers; by TLS, if there is a host to verify. Raises OSError."""
    loop = asyncio.get_running_loop()
    if len(addresses) == 1:
        sock = await _connect(loop, make_socket(addresses[0]), addresses[0][4])
    else:
        sock = await start_connection(
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS_DELAY_S, loop=loop, socket_factory=make_socket
        )
    if tls_host is None and request_bytes <= _DIRECT_BYTES:
        return SocketConnection(sock, loop)
    tls = None if tls_host is None else _TLS
    return StreamConnection(*await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=tls_host))


async def _connect(loop: asyncio.AbstractEventLoop, sock: socket.socket, address: tuple[Any, ...]) -> socket.socket:
    """Connect as `loop.sock_connect` does, without its lookup of an address that is one already."""
    try:
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code in _UNDER_WAY:
            if not _is_connected(sock):
                await _wait_ready(loop, sock, loop.add_writer, loop.remove_writer)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except (OSError, asyncio.CancelledError):
        sock.close()
        raise
    if code:
        sock.close()
        raise OSError(code, os.strerror(code))
    return sock


def _is_connected(sock: socket.socket) -> bool:
    """True at once for a server on this machine, which then needs no turn of the event loop."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


async def _wait_ready(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    add: Callable[..., None],
    remove: Callable[[int], object],
) -> None:
    """Wait until a socket can be read or written to. The loop's own methods cost one more callback each time."""
    is_ready: asyncio.Future[None] = loop.create_future()
    fd = sock.fileno()  # the loop makes a text of a socket that it does not know, which costs more than the rest
    add(fd, _set_ready, is_ready)
    try:
        await is_ready
    finally:
        remove(fd)


def _set_ready(is_ready: "asyncio.Future[None]") -> None:
    if not is_ready.done():
        is_ready.set_result(None)


class ResponseReader:
    """Reads one response from a connection, and decompresses its body only as far as it is read.

    It is the protocol that aiohttp's parser knows: the parser asks it to pause when a body expands, and it continues
    when that was read. `close` ends the cycles of references between them.
    """

    def __init__(self, connection: EndpointConnection, *, has_body: bool) -> None:
        self._connection = connection
        self._is_paused = False
        self._body: StreamReader = EMPTY_PAYLOAD
        self._messages: list[tuple[RawResponseMessage, StreamReader]] = []
        self._parser: HttpResponseParser | None = HttpResponseParser(
            self,  # type: ignore[arg-type] # the parser uses no more of a protocol than is here
            asyncio.get_running_loop(),
            CHUNK_BYTES,
            payload_exception=ClientPayloadError,
            response_with_body=has_body,
            read_until_eof=True,
        )

    async def read_head(self) -> RawResponseMessage:
        """Return status and headers. Raises HttpProcessingError, or OSError if the connection ends before them."""
        while True:
            while not self._messages:
                if not await self._receive():
                    raise ConnectionResetError
            message, self._body = self._messages.pop(0)
            if not 100 <= message.code < 200 or message.code == 101:  # others are interim responses
                return message

    async def read_body(self, max_bytes: int) -> bytes:
        """Return the next part of the body; empty at its end. Raises OSError or what is wrong with the body."""
        while not (part := self._body.read_nowait(max_bytes)) and not self._body.at_eof():
            await self._receive()
        return part

    async def _receive(self) -> bool:
        assert self._parser is not None
        data = await self._connection.receive()
        if data:
            self._messages += self._parser.feed_data(data)[0]
        else:
            self._parser.feed_eof()
        return bool(data)

    def close(self) -> None:
        self._parser, self._body = None, EMPTY_PAYLOAD

    def pause_reading(self) -> None:
        assert self._parser is not None
        self._is_paused = True
        self._parser.pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: ARG002 - the shape of a protocol
        if self._is_paused and self._parser is not None:
            self._is_paused = False
            self._parser.feed_data(b"")
