"""The demo's endpoints: their responses, and that they are HTTP."""

import asyncio
import json
import socket
from http import HTTPStatus

import pytest

from herdbeat.demo.fleet import (
    OUTAGE_PERIOD_S,
    SURGE_DURATION_S,
    SURGE_PERIOD_S,
    SURGE_START_S,
    build_response,
    open_socket,
    serve_endpoints,
)


@pytest.mark.parametrize("lap", [0, 1, 7])
def test_the_queue_surges_once_in_every_lap(lap: int) -> None:
    start = lap * SURGE_PERIOD_S
    moments = (start, start + SURGE_START_S, start + SURGE_START_S + SURGE_DURATION_S)

    depths = [build_response("/queue", seconds).body["queue_depth"] for seconds in moments]

    assert depths[1] == 150
    assert all(isinstance(depth, int) and depth < 20 for depth in (depths[0], depths[2]))


def test_the_checkout_fails_and_recovers() -> None:
    statuses = {build_response("/checkout", float(second)).status for second in range(int(OUTAGE_PERIOD_S))}

    assert statuses == {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}


def test_another_path_is_not_found_and_says_which_there_are() -> None:
    response = build_response("/", 0)

    assert response.status is HTTPStatus.NOT_FOUND
    assert "/queue" in str(response.body)


async def test_they_answer_over_http_also_requests_that_come_before_they_serve() -> None:
    opened = open_socket(0)
    reader, writer = await asyncio.open_connection(*opened.getsockname())
    writer.write(b"GET /health?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")

    async with serve_endpoints(opened):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert json.loads(body) == {"ok": True}


async def test_a_client_without_http_is_disconnected_and_others_are_served() -> None:
    opened = open_socket(0)
    async with serve_endpoints(opened):
        silent, writer = await asyncio.open_connection(*opened.getsockname())
        writer.write(b"hello\r\n\r\n")

        assert await silent.read() == b""
        writer.close()
        reader, second = await asyncio.open_connection(*opened.getsockname())
        second.write(b"GET /health HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        second.close()


def test_a_port_that_is_taken_is_replaced_by_a_free_one() -> None:
    with open_socket(0) as first, open_socket(first.getsockname()[1]) as second:
        assert isinstance(second, socket.socket)
        assert first.getsockname() != second.getsockname()
