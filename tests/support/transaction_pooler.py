"""A pooler between a fleet and its server, as pgbouncer is in its transaction mode: few connections for many clients.

A client gets a connection with the first thing it says, and keeps it until its transaction is over. Whatever it has
left there, a setting or a prepared statement, is found by whoever gets the connection next.
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

_ENCRYPT = (80877103, 80877104)
_CANCEL = 80877102
_SPEAK = 196608
"""What a client may say first: let us encrypt, stop that question, let us speak protocol 3.0."""

_ASKS = b"QS"
"""Messages that the server answers with `Z`, when it is ready for the next: a question, and the end of a batch."""

_NOBODY = struct.pack("!cIII", b"K", 12, 1, 1)
"""Whom to cancel: a process that is none of the server's."""


class Pooler:
    def __init__(self, server: Path, database: str, size: int) -> None:
        self._server = server
        self._database = database
        self._door = socket.create_server(("127.0.0.1", 0))
        self._free: SimpleQueue[socket.socket] = SimpleQueue()
        self._greeting = b""
        self.hand_overs = 0
        """How often a client was given another connection than it had before."""
        for _ in range(size):
            self._free.put(self._connect())

    @property
    def port(self) -> int:
        port: int = self._door.getsockname()[1]
        return port

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                threading.Thread(target=self._attend, args=(near,), daemon=True).start()

    def close(self) -> None:
        self._door.close()

    def _connect(self) -> socket.socket:
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self._server))
        words = f"user\0postgres\0database\0{self._database}\0\0".encode()
        far.sendall(struct.pack("!II", 8 + len(words), _SPEAK) + words)
        heard, told = bytearray(), b""
        while not told.startswith(b"Z"):
            heard += far.recv(65_536)
            for told in _messages(heard):
                if told.startswith(b"S") and told not in self._greeting:
                    self._greeting += told
        return far

    def _attend(self, near: socket.socket) -> None:
        client = _Client(near)
        with near, suppress(OSError):
            if _is_greeted(near, self._greeting):
                while self._pass_on(client):
                    pass
        if client.far is not None:  # gone in the middle of a transaction, which goes with its connection
            client.far.close()
            self._free.put(self._connect())

    def _pass_on(self, client: "_Client") -> bool:
        """Whatever is there to be heard, on either side. False when the client has gone."""
        ends = [client.near] if client.far is None else [client.near, client.far]
        ready, _, _ = select.select(ends, [], [])
        if client.far in ready and client.hear():
            assert client.far is not None
            self._free.put(client.far)
            client.far = None
        return client.near not in ready or self._ask(client)

    def _ask(self, client: "_Client") -> bool:
        data = client.near.recv(65_536)
        client.said += data
        for message in _messages(client.said):
            if message.startswith(b"X"):
                return False
            if client.far is None:
                client.far = self._free.get()
                self.hand_overs += client.before not in (None, client.far)
                client.before = client.far
            client.unanswered += message[0] in _ASKS
            client.far.sendall(message)
        return bool(data)


@dataclass(slots=True)
class _Client:
    near: socket.socket
    far: socket.socket | None = None
    before: socket.socket | None = None
    unanswered: int = 0
    said: bytearray = field(default_factory=bytearray)
    heard: bytearray = field(default_factory=bytearray)

    def hear(self) -> bool:
        """Whether the transaction is over, and everything answered."""
        assert self.far is not None
        data = self.far.recv(65_536)
        if not data:
            raise ConnectionResetError
        self.near.sendall(data)
        self.heard += data
        is_over = False
        for message in _messages(self.heard):
            if message.startswith(b"Z"):
                self.unanswered -= 1
                is_over = self.unanswered == 0 and message.endswith(b"I")
        return is_over


def _is_greeted(near: socket.socket, greeting: bytes) -> bool:
    """As the server would, without asking it."""
    while True:
        length, what = struct.unpack("!II", near.recv(8, socket.MSG_WAITALL))
        near.recv(length - 8, socket.MSG_WAITALL) if length > 8 else b""
        if what == _CANCEL:
            return False
        if what not in _ENCRYPT:
            break
        near.sendall(b"N")
    near.sendall(struct.pack("!cII", b"R", 8, 0) + greeting + _NOBODY + struct.pack("!cIc", b"Z", 5, b"I"))
    return True


def _messages(buffer: bytearray) -> Iterator[bytes]:
    """Those that are whole; they are taken out of the buffer."""
    while len(buffer) >= 5:
        length = 1 + int.from_bytes(buffer[1:5], "big")
        if len(buffer) < length:
            return
        message = bytes(buffer[:length])
        del buffer[:length]
        yield message


@contextmanager
def open_pooler(url: str, size: int) -> Iterator[tuple[Pooler, str]]:
    """A pooler for the database of a URL, and the URL through it."""
    parts = urlsplit(url)
    folder, name = Path(parse_qs(parts.query)["host"][0]), parts.path.strip("/")
    pooler = Pooler(folder / ".s.PGSQL.5432", name, size)
    threading.Thread(target=pooler.serve, daemon=True).start()
    try:
        yield pooler, f"postgresql://postgres@127.0.0.1:{pooler.port}/{name}"
    finally:
        pooler.close()
