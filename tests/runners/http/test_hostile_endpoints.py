"""Endpoints that hang, drip, flood, lie and break off: the run ends, its connection is closed, the error is correct."""

import asyncio
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.runners.http.conftest import Logged
from tests.support.http_endpoints import Endpoint, Responder, respond, respond_raw, serve_endpoint
from tests.support.runner_jobs import make_job

from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.http.client import EndpointCaller

DEADLINE = 0.2
FLAT = 4 * 1024 * 1024


async def run_out_of_time(calls: EndpointCaller, endpoint: Endpoint) -> None:
    """Run until the deadline, and check that the connection is closed right after it."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(DEADLINE):
            await calls.run(make_job(endpoint.get()))
    async with asyncio.timeout(60):
        await endpoint.left.wait()


@contextmanager
def flat_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < FLAT, f"{peak} bytes at the worst moment"


async def say_nothing(writer: asyncio.StreamWriter) -> None:
    """Hang before the first byte."""


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, for ever: each would extend a timeout that counts from the last byte."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(DEADLINE / 20)


async def drip_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(DEADLINE / 20)


async def go_on_and_on(writer: asyncio.StreamWriter) -> None:
    """Send interim responses for ever."""
    while True:
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(DEADLINE / 20)


@pytest.mark.parametrize("speak", [say_nothing, drip, drip_headers, go_on_and_on])
async def test_a_call_of_an_endpoint_that_does_not_finish_ends_at_the_deadline(
    calls: EndpointCaller, speak: Responder
) -> None:
    async with serve_endpoint(speak) as endpoint:
        await run_out_of_time(calls, endpoint)


async def say_half(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")


@pytest.mark.parametrize(
    ("speak", "note"),
    [
        (say_nothing, "cancelled: no answer from 127.0.0.1"),
        (say_half, "cancelled: 127.0.0.1 answered 200 and sent 3 bytes of the body"),
    ],
)
async def test_a_cancelled_run_notes_its_progress(
    calls: EndpointCaller, logged: Logged, speak: Responder, note: str
) -> None:
    async with serve_endpoint(speak) as endpoint:
        await run_out_of_time(calls, endpoint)

    assert note in str(logged)


async def flood(writer: asyncio.StreamWriter) -> None:
    """Send ten gigabytes, of which only the beginning is read."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    for _ in range(10_000):
        writer.write(b"x" * 1_000_000)
        await writer.drain()


async def flood_in_chunks(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def flood_as_a_failure(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Oh\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


@pytest.mark.parametrize(
    ("speak", "status", "code"),
    [
        (flood, RunStatus.SUCCEEDED, 200),
        (flood_in_chunks, RunStatus.SUCCEEDED, 200),
        (flood_as_a_failure, RunStatus.FAILED, 500),
    ],
)
async def test_only_the_beginning_of_an_endless_body_is_read(
    calls: EndpointCaller, speak: Responder, status: RunStatus, code: int
) -> None:
    async with serve_endpoint(speak) as endpoint:
        with flat_memory():
            outcome = await calls.run(make_job(endpoint.get()))
        await endpoint.left.wait()

    assert (outcome.status, outcome.code, outcome.response) == (status, code, None)
    assert outcome.summary == "The body is truncated: only its first 100000 bytes were read."


def bomb(encoding: str, megabytes: int) -> bytes:
    """Return so many megabytes of zeros, compressed a thousand times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    nothing = bytes(1 << 20)
    return b"".join(packer.compress(nothing) for _ in range(megabytes)) + packer.flush()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compression_bomb_is_not_expanded(calls: EndpointCaller, encoding: str) -> None:
    packed = bomb(encoding, 200)
    async with serve_endpoint(respond(packed, Content_Encoding=encoding)) as endpoint:
        with flat_memory():
            outcome = await calls.run(make_job(endpoint.get()))

    assert (outcome.status, outcome.summary) == (
        RunStatus.SUCCEEDED,
        "The body is truncated: only its first 100000 bytes were read.",
    )


async def test_endless_redirects_fail(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond("", "302 Found", Location="/again")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert (outcome.status, len(endpoint.requests)) == (RunStatus.FAILED, 6)
    assert outcome.error == (
        "The request was redirected more than 5 times, the last time to 127.0.0.1."
        " Use the final URL, or fix the redirect loop."
    )


async def test_a_redirect_to_another_scheme_fails(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond("", "302 Found", Location="file:///etc/passwd")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert outcome.error == ("127.0.0.1 redirects to a URL that is not http or https. Use the final URL.")


async def test_bytes_that_are_not_text_are_replaced(calls: EndpointCaller, logged: Logged) -> None:
    async with serve_endpoint(respond(b"\xff\xfe\0caf\xe9\n", "500 Oh", Content_Type="text/plain")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert outcome.error == "500 Oh: \ufffd\ufffd\ufffdcaf\ufffd"
    assert "caf" in str(logged)


async def test_a_retry_after_of_thirty_years_is_noted_as_a_day(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond("", "429 Too Many Requests", Retry_After="1e9")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert (outcome.error, outcome.summary) == (
        "429 Too Many Requests",
        "The server asks to wait 1d (Retry-After).",
    )


NO_ANSWER = "127.0.0.1 closed the connection without a response. Check the log of the endpoint."
BROKEN_OFF = "Check the endpoint and any proxy in front of it."


@pytest.mark.parametrize(
    ("raw_response", "code", "error"),
    [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            200,
            f"The connection was lost after 3 bytes of the response body. {BROKEN_OFF}",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            200,
            f"The connection was lost after 3 bytes of the response body. {BROKEN_OFF}",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
            200,
            "The response body cannot be decoded: it does not match its Content-Encoding header. " + BROKEN_OFF,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc",
            None,
            "127.0.0.1 uses an unsupported Content-Encoding. Configure the endpoint to use gzip, deflate or none.",
        ),
        ("", None, NO_ANSWER),
        ("HTTP/1.1 200 OK\r\nCont", None, NO_ANSWER),
    ],
)
async def test_an_incomplete_response_is_a_failure(
    calls: EndpointCaller, raw_response: str, code: int | None, error: str
) -> None:
    async with serve_endpoint(respond_raw(raw_response)) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert (outcome.status, outcome.code, outcome.error) == (RunStatus.FAILED, code, error)


@pytest.mark.parametrize(
    "raw_response",
    [
        "SSH-2.0-OpenSSH_9.6\r\n",
        "\x00\x01\x02\x03" * 100,
        "HTTP/1.1 two-hundred OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: " + "x" * 100_000 + "\r\n\r\n",
        "HTTP/1.1 200 OK\r\n" + "X: y\r\n" * 10_000 + "\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: minus one\r\n\r\n",
    ],
)
async def test_a_response_that_is_not_http_is_reported(calls: EndpointCaller, raw_response: str) -> None:
    async with serve_endpoint(respond_raw(raw_response)) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert outcome.status is RunStatus.FAILED
    assert outcome.error.startswith("127.0.0.1 did not send an HTTP response: ")
    assert outcome.error.endswith(". Check the port.")
    assert len(outcome.error) < 300


async def test_a_self_signed_certificate_is_not_trusted(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond("{}"), has_tls=True) as endpoint:
        outcome = await calls.run(make_job(EndpointSpec(url=endpoint.url(scheme="https"))))

    assert outcome.error == (
        "The certificate of 127.0.0.1 is not trusted: self-signed certificate."
        " Renew it, or set SSL_CERT_FILE to the certificate file of its authority."
    )
    assert endpoint.requests == []


async def test_a_port_without_tls_is_reported(calls: EndpointCaller) -> None:
    async def speak_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(speak_first, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    outcome = await calls.run(make_job(EndpointSpec(url=f"https://127.0.0.1:{port}/")))
    server.close()

    assert (
        outcome.error == "TLS handshake with 127.0.0.1 failed: wrong version number. Check that the port serves https."
    )


async def test_a_port_where_nothing_listens_is_reported(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond()) as endpoint:
        spec = endpoint.get()
    outcome = await calls.run(make_job(spec))

    assert outcome.error == (
        f"Nothing listens on port {endpoint.port} of 127.0.0.1. Start the service, or correct url."
    )


async def test_two_kinds_of_credentials_are_not_blamed_on_letters(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond("{}")) as endpoint:
        spec = endpoint.get()
        url = spec.url.replace("://", "://me:hush@")
        outcome = await calls.run(make_job(replace(spec, url=url, headers={"Authorization": "Bearer x"})))

    assert outcome.error == "The url contains a user name and the headers contain Authorization. Remove one of them."


@pytest.mark.parametrize("headers", [{"X-Bad": "secret\r\nX-Worse: b"}, {"X Bad\r\n": "secret"}, {"X-Nul": "secret\0"}])
async def test_a_header_that_cannot_be_sent_is_reported_without_its_value(
    calls: EndpointCaller, headers: dict[str, str]
) -> None:
    async with serve_endpoint(respond("{}")) as endpoint:
        outcome = await calls.run(make_job(replace(endpoint.get(), headers=headers)))

    assert (outcome.status, endpoint.requests) == (RunStatus.FAILED, [])
    assert outcome.error == (
        "The request to 127.0.0.1 is invalid. Check url and headers for characters that HTTP does not allow."
    )


METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH")


async def die_after_working(writer: asyncio.StreamWriter) -> None:
    """Close the connection without a response: the process of the endpoint crashed after its work."""
    writer.close()


async def reset_after_working(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@pytest.mark.parametrize("speak", [die_after_working, reset_after_working])
@pytest.mark.parametrize("method", METHODS)
async def test_a_dropped_connection_is_not_asked_twice(calls: EndpointCaller, speak: Responder, method: str) -> None:
    async with serve_endpoint(speak) as endpoint:
        outcome = await calls.run(make_job(EndpointSpec(url=endpoint.url(), method=method)))

    assert len(endpoint.requests) == 1
    assert outcome.status is RunStatus.FAILED
    assert outcome.error == "127.0.0.1 closed the connection without a response. Check the log of the endpoint."


@pytest.mark.parametrize("method", METHODS)
async def test_a_connection_that_the_server_closed_while_idle_fails_no_run(calls: EndpointCaller, method: str) -> None:
    """The server says that it keeps the connection, and drops it with the first byte of the next request."""
    received: list[str] = []

    async def answer_once_per_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append((await reader.readuntil(b"\r\n")).decode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")
        if await reader.read(1):
            received.append("a request on a connection that was kept")
        writer.transport.abort()

    server = await asyncio.start_server(answer_once_per_connection, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        outcomes = [await calls.run(make_job(EndpointSpec(url=url, method=method))) for _ in range(5)]

    assert [each.status for each in outcomes] == [RunStatus.SUCCEEDED] * 5
    assert received == [f"{method} / HTTP/1.1\r\n"] * 5
