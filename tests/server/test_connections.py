"""Connections that bring half a request: they end, and those that bring a whole one stay."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
import uvicorn
from tests.server.conftest import ServedFleet

from herdbeat.server import middleware, process
from herdbeat.server.process import TimedProtocol

HEAD = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "REQUEST_TIMEOUT_S", 0.05)


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(app, http=TimedProtocol, ws="none", lifespan="off", log_config=None)
    config.load()
    state = uvicorn.Server(config).server_state
    server = await loop.create_server(lambda: TimedProtocol(config, state, {}), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "sent",
    [b"", HEAD, b"POST /api/v1/bulk HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{", HEAD + b"\r\n" + HEAD],
    ids=["nothing", "half a head", "half a body", "half a second request"],
)
async def test_a_connection_with_half_a_request_is_closed(served: ServedFleet, sent: bytes) -> None:
    """4,100 of them kept everybody else out for as long as they liked."""
    async with listening(served.app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)

        async with asyncio.timeout(30):
            with closing(writer):
                answers = await _read_to_the_end(reader)

    assert answers.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n" + HEAD)


async def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(served: ServedFleet) -> None:
    """A proxy in front may go by the other length: what is left of the body was read as the next request."""
    body = b"2\r\n{}\r\n0\r\n\r\n"
    lengths = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    head = b"POST /hooks/triage/issues HTTP/1.1\r\nHost: 127.0.0.1\r\n" + lengths
    async with listening(served.app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body + HEAD + b"\r\n")

        async with asyncio.timeout(30):
            with closing(writer):
                answers = await _read_to_the_end(reader)

    assert answers.startswith(b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("path", [b"/hooks/triage/issues", b"/api/v1/bulk"])
async def test_bodies_that_are_never_finished_do_not_fill_the_memory(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    """They are read before it is known who sends them: a stranger with 4,000 connections had 4 GiB."""
    monkeypatch.setattr(process, "REQUEST_TIMEOUT_S", 60.0)
    monkeypatch.setattr(middleware, "MAX_HELD_BODY_BYTES", 200_000)
    head = b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 150000\r\n\r\n"

    async with listening(served.app) as port, asyncio.timeout(30):
        pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in pairs:
            writer.write(head + b"x" * 140_000)
        first, *_ = await asyncio.wait(
            [asyncio.create_task(reader.readuntil(b"\r\n")) for reader, _ in pairs],
            return_when=asyncio.FIRST_COMPLETED,
        )
        refused = {task.result() for task in first}
        for _, writer in pairs:
            writer.close()

        while await _call_hook(port) != b"404":  # once the others are gone, there is room again
            pass

    assert {line.split(b" ")[1] for line in refused} == {b"429"}


async def _call_hook(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        writer.write(b"POST /hooks/triage/none HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}")
        return (await reader.readuntil(b"\r\n")).split(b" ")[1]


async def test_an_answer_may_take_longer_than_its_request() -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(4 * process.REQUEST_TIMEOUT_S)  # as long as several requests may take
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with listening(answer) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"\r\n")

        async with asyncio.timeout(30):
            with closing(writer):
                text = await reader.readuntil(b"ok")

    assert text.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [32_768, 32_000_000], ids=["small parts", "one large body"])
async def test_a_client_that_never_reads_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Its connection and what waited for it stayed as long as it liked."""
    monkeypatch.setattr(process, "UNREAD_TIMEOUT_S", 0.2)
    gone = asyncio.Event()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        async def fill() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
                await asyncio.sleep(0)

        filling = asyncio.create_task(fill())
        while (await receive())["type"] != "http.disconnect":
            pass
        filling.cancel()
        gone.set()

    async with listening(answer) as port:
        with closing(socket.create_connection(("127.0.0.1", port))) as client:
            client.sendall(HEAD + b"\r\n")

            async with asyncio.timeout(30):
                await gone.wait()


async def _read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    found = b""
    try:
        while part := await reader.read(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found
