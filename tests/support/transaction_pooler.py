"""A pooler between a fleet and its server, like pgbouncer in transaction mode: few connections for many clients.

A client gets a connection with its first message, and keeps it until its transaction is over. Whatever it leaves there,
a setting or a prepared statement, the next client of that connection finds.
"""

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import parse_qs, urlsplit

_ENCRYPTION_REQUESTS = (80877103, 80877104)
_CANCEL_REQUEST = 80877102
_PROTOCOL_3 = 196608
"""The first message of a client: a request for encryption, a cancel request, or the start of protocol 3.0."""

_MESSAGES_WITH_REPLY = b"QS"
"""Messages that the server answers with `Z` when it is ready for the next: a query, and the end of a batch."""

_BACKEND_KEY = struct.pack("!cIII", b"K", 12, 1, 1)
"""The key for cancel requests: of a process that the server does not have."""


class Pooler:
    def __init__(self, server: Path, database: str, size: int) -> None:
        self._server = server
        self._database = database
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._free: SimpleQueue[socket.socket] = SimpleQueue()
        self._opened: list[socket.socket] = []
        self._parameters = b""
        self.hand_overs = 0
        """How often a client was given another connection than it had before."""
        for _ in range(size):
            self._free.put(self._connect())

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve_client, args=(near,), daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for far in self._opened:
            far.close()

    def _connect(self) -> socket.socket:
        far = socket.socket(socket.AF_UNIX)
        self._opened.append(far)
        far.connect(str(self._server))
        options = f"user\0postgres\0database\0{self._database}\0\0".encode()
        far.sendall(struct.pack("!II", 8 + len(options), _PROTOCOL_3) + options)
        received, message = bytearray(), b""
        while not message.startswith(b"Z"):
            received += far.recv(65_536)
            for message in _pop_messages(received):
                if message.startswith(b"S") and message not in self._parameters:
                    self._parameters += message
        return far

    def _serve_client(self, near: socket.socket) -> None:
        client = _Client(near)
        with near, suppress(OSError):
            if _accept_startup(near, self._parameters):
                while self._forward(client):
                    pass
        if client.far is not None:  # it went away in the middle of a transaction, which ends with its connection
            client.far.close()
            self._free.put(self._connect())

    def _forward(self, client: "_Client") -> bool:
        """Forward whatever either side has sent. Returns False when the client has gone."""
        ends = [client.near] if client.far is None else [client.near, client.far]
        ready, _, _ = select.select(ends, [], [])
        if client.far in ready and client.forward_reply():
            assert client.far is not None
            self._free.put(client.far)
            client.far = None
        return client.near not in ready or self._forward_request(client)

    def _forward_request(self, client: "_Client") -> bool:
        data = client.near.recv(65_536)
        client.sent += data
        for message in _pop_messages(client.sent):
            if message.startswith(b"X"):
                return False
            if client.far is None:
                client.far = self._free.get()
                self.hand_overs += client.before not in (None, client.far)
                client.before = client.far
            client.unanswered += message[0] in _MESSAGES_WITH_REPLY
            client.far.sendall(message)
        return bool(data)


@dataclass(slots=True)
class _Client:
    near: socket.socket
    far: socket.socket | None = None
    before: socket.socket | None = None
    unanswered: int = 0
    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)

    def forward_reply(self) -> bool:
        """Return whether the transaction is over and everything is answered."""
        assert self.far is not None
        data = self.far.recv(65_536)
        if not data:
            raise ConnectionResetError
        self.near.sendall(data)
        self.received += data
        is_over = False
        for message in _pop_messages(self.received):
            if message.startswith(b"Z"):
                self.unanswered -= 1
                is_over = self.unanswered == 0 and message.endswith(b"I")
        return is_over


def _accept_startup(near: socket.socket, parameters: bytes) -> bool:
    """Answer the start-up message as the server would, without asking it."""
    while True:
        length, what = struct.unpack("!II", near.recv(8, socket.MSG_WAITALL))
        near.recv(length - 8, socket.MSG_WAITALL) if length > 8 else b""
        if what == _CANCEL_REQUEST:
            return False
        if what not in _ENCRYPTION_REQUESTS:
            break
        near.sendall(b"N")
    near.sendall(struct.pack("!cII", b"R", 8, 0) + parameters + _BACKEND_KEY + struct.pack("!cIc", b"Z", 5, b"I"))
    return True


def _pop_messages(buffer: bytearray) -> Iterator[bytes]:
    """Remove the complete messages from the buffer and return them."""
    while len(buffer) >= 5:
        length = 1 + int.from_bytes(buffer[1:5], "big")
        if len(buffer) < length:
            return
        message = bytes(buffer[:length])
        del buffer[:length]
        yield message


@contextmanager
def open_pooler(url: str, size: int) -> Iterator[tuple[Pooler, str]]:
    """Open a pooler for the database of a URL; return it and the URL through it."""
    parts = urlsplit(url)
    folder, name = Path(parse_qs(parts.query)["host"][0]), parts.path.strip("/")
    pooler = Pooler(folder / ".s.PGSQL.5432", name, size)
    threading.Thread(target=pooler.serve, daemon=True).start()
    try:
        yield pooler, f"postgresql://postgres@127.0.0.1:{pooler.port}/{name}"
    finally:
        pooler.close()
