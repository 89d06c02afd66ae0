"""A quick HTTP server for the measurement of endpoints, in a process of its own: it only counts what arrives.

It prints its port, and at the end of its standard input how many requests it has answered.
"""

import asyncio
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Counter(asyncio.Protocol):
    """Answers every request of a connection. These have no body, so each ends with a blank line."""

    answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *requests, self._rest = (self._rest + data).split(b"\r\n\r\n")
        Counter.answered += len(requests)
        assert isinstance(self._transport, asyncio.WriteTransport)
        self._transport.write(ANSWER * len(requests))


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Counter, "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(Counter.answered, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
