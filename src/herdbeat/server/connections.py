"""Connections of clients: one that does not bring a whole request in time is closed.

uvicorn waits for the rest of a request without end. A few thousand connections with half a request each, which cost
their sender nothing, kept everybody else out.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT_S = 40.0
"""Longer than a webhook waits for its body: its sender gets an answer, and the operator a record of the call."""

_INCOMPLETE = (h11.IDLE, h11.SEND_BODY)


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit from the first byte of a request, or the connection, to its last byte."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_watch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in _INCOMPLETE:
            self._end_watch()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.abort)

    def _end_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
