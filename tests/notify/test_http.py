import asyncio
from datetime import timedelta

import pytest
from tests.support.http_endpoints import Endpoint, serve_endpoint

from herdbeat.notify.base import DeliveryFailed
from herdbeat.notify.http import HttpPost, HttpSender, read_answer


async def send(endpoint: Endpoint, time_limit: timedelta = timedelta(seconds=10)) -> object:
    sender = HttpSender()
    try:
        return await sender.post(HttpPost(url=endpoint.url("/in?key=s3cret"), body=b"{}", timeout=time_limit))
    finally:
        await sender.close()


def respond(status: str, headers: str = "", body: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}".encode()


async def test_a_receiver_that_hangs_fails_after_the_timeout() -> None:
    async def hang(_: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serve_endpoint(hang) as endpoint:
        with pytest.raises(DeliveryFailed, match="did not answer within") as caught:
            await send(endpoint, timedelta(seconds=0.2))

    assert caught.value.is_receiver_down
    assert "s3cret" not in caught.value.message


async def test_a_receiver_that_redirects_is_not_followed() -> None:
    async with serve_endpoint(lambda _: asyncio.sleep(0)) as private:
        location = f"Location: {private.url('/admin')}\r\n"

        async def redirect(writer: asyncio.StreamWriter) -> None:
            writer.write(respond("302 Found", location))

        async with serve_endpoint(redirect) as endpoint:
            with pytest.raises(DeliveryFailed, match="redirects are not followed"):
                await send(endpoint)

        assert private.requests == []


async def test_a_receiver_that_sends_bytes_for_ever_is_left_after_the_first_of_them() -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with serve_endpoint(flood) as endpoint:
        await send(endpoint)
        await endpoint.left.wait()

    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("status", "is_final", "is_receiver_down"),
    [("500 Oops", False, True), ("429 Slow", False, True), ("400 Bad", False, False), ("410 Gone", True, False)],
)
async def test_a_status_says_whether_it_is_about_the_message_or_the_receiver(
    status: str, is_final: bool, is_receiver_down: bool
) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(respond(status, "Retry-After: 90\r\n"))

    async with serve_endpoint(answer) as endpoint:
        with pytest.raises(DeliveryFailed) as caught:
            await send(endpoint)

    assert (caught.value.is_final, caught.value.is_receiver_down) == (is_final, is_receiver_down)
    assert caught.value.retry_after == timedelta(seconds=90)


async def test_an_answer_that_comes_in_two_parts_is_read_to_its_end() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b'{"ok":false,')
    reading = asyncio.ensure_future(read_answer(stream))
    await asyncio.sleep(0)  # the first part is taken
    stream.feed_data(b'"error":"channel_not_found"}')
    stream.feed_eof()

    assert await reading == b'{"ok":false,"error":"channel_not_found"}'


async def test_a_receiver_that_never_ends_its_answer_has_the_message() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx")
        await asyncio.Event().wait()

    async with serve_endpoint(drip) as endpoint:
        assert await send(endpoint) is None
