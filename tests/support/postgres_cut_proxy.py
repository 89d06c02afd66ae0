"""A small proxy in front of PostgreSQL that cuts connections around a COMMIT."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_SHUTDOWN_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
SHUTDOWN_MESSAGE = b"E" + (4 + len(_SHUTDOWN_FIELDS)).to_bytes(4, "big") + _SHUTDOWN_FIELDS
READY_MESSAGE_BYTES = 6
"""The length of the server's ReadyForQuery message."""


class CutProxy:
    """Listens on a port of its own and forwards everything until it is set to cut.

    `before` cuts instead of forwarding a COMMIT; `after` forwards it and drops the response; `shut down` simulates
    a server that is stopped right after the commit: it reports its shutdown, and the connection is not cut yet.
    """

    def __init__(self, server: Path, chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self._door = socket.create_server(("127.0.0.1", 0))
        self.rate = 0.0
        self.how = "before"
        self.cuts = 0
        self.is_open = True

    @property
    def port(self) -> int:
        port: int = self._door.getsockname()[1]
        return port

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                if not self.is_open:
                    near.close()
                    continue
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._server))
                for source, sink, listen in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pump, args=(source, sink, listen), daemon=True).start()

    def close(self) -> None:
        self._door.close()

    def _pump(self, source: socket.socket, sink: socket.socket, is_to_the_server: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                is_commit = b"COMMIT\x00" in data and is_to_the_server is not (self.how == "shut down")
                is_cut = is_commit and self._chance.random() < self.rate
                if is_cut and self.how == "shut down":
                    sink.sendall(data[:-READY_MESSAGE_BYTES] + SHUTDOWN_MESSAGE)
                    self.cuts += 1
                    continue
                if is_cut and self.how == "after":
                    with suppress(OSError):
                        source.shutdown(socket.SHUT_RDWR)  # the client has gone
                if not is_cut or self.how == "after":
                    sink.sendall(data)
                if is_cut:
                    self.cuts += 1
                    break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def open_cut_proxy(url: str, seed: int = 1) -> Iterator[tuple[CutProxy, str]]:
    """Open a proxy for the server of a URL; return it and the URL through it."""
    parts = urlsplit(url)
    folder = Path(parse_qs(parts.query)["host"][0])
    proxy = CutProxy(folder / ".s.PGSQL.5432", random.Random(seed))
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy, f"postgresql://postgres@127.0.0.1:{proxy.port}{parts.path}"
    finally:
        proxy.close()
