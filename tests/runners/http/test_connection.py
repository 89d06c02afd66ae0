"""Connections: TLS, large bodies, hosts with several addresses, and what is left behind."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.runners.http.test_egress import Answers, call, opened
from tests.support.http_endpoints import CERTIFICATE, respond, serve_endpoint
from tests.support.runner_jobs import make_job

from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.http import connection
from herdbeat.runners.http.client import EndpointCaller
from herdbeat.runners.http.egress import AddrInfos
from herdbeat.runners.settings import RunnerSettings


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the certificate of the tests, which names no host."""
    context = ssl.create_default_context(cafile=str(CERTIFICATE))
    context.check_hostname = False
    monkeypatch.setattr(connection, "_TLS", context)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("size", [2, 90_000])
async def test_an_answer_over_tls_is_read(calls: EndpointCaller, size: int) -> None:
    async with serve_endpoint(respond("x" * size), has_tls=True) as endpoint:
        outcome = await calls.run(make_job(EndpointSpec(url=endpoint.url(scheme="https"))))
        await endpoint.left.wait()

    assert (outcome.status, outcome.code, len(endpoint.requests)) == (RunStatus.SUCCEEDED, 200, 1)
    assert set(outcome.output) == {"x"}


@pytest.mark.parametrize("size", [1, 5_000_000])
async def test_a_body_of_any_size_arrives_whole(calls: EndpointCaller, size: int) -> None:
    async with serve_endpoint(respond("{}")) as endpoint:
        outcome = await calls.run(make_job(replace(endpoint.get(), method="POST", body="x" * size)))

    assert (outcome.status, len(endpoint.requests[0].partition("\r\n\r\n")[2])) == (RunStatus.SUCCEEDED, size + 2)


async def test_a_server_that_answers_before_it_has_read_the_body_is_heard(calls: EndpointCaller) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await hung_up.wait()
        writer.close()

    hung_up = asyncio.Event()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, asyncio.timeout(10):
        outcome = await calls.run(make_job(EndpointSpec(url=url, method="POST", body="x" * 20_000_000)))
        hung_up.set()

    assert outcome.error == "413 Too Large"


async def test_a_host_is_reached_by_its_second_address_if_the_first_refuses(settings: RunnerSettings) -> None:
    class TwoAddresses(Answers):
        def __call__(self, host: str, port: int) -> AddrInfos:
            kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
            return [(*kind, ("127.0.0.2", port)), (*kind, ("127.0.0.1", port))]

    async with serve_endpoint(respond("{}")) as endpoint, opened(settings, TwoAddresses(""), "127.0.0.0/8") as calls:
        outcome = await call(calls, endpoint.url(host="two.example"))

    assert outcome.status is RunStatus.SUCCEEDED


async def test_endpoints_of_one_host_share_a_lookup(settings: RunnerSettings) -> None:
    class Counting(Answers):
        count = 0

        def __call__(self, host: str, port: int) -> AddrInfos:
            Counting.count += 1
            return super().__call__(host, port)

    async with serve_endpoint(respond("{}")) as endpoint, opened(settings, Counting("127.0.0.1"), "*.example") as calls:
        outcomes = await asyncio.gather(*(call(calls, endpoint.url(host="one.example")) for _ in range(20)))

    assert {each.status for each in outcomes} == {RunStatus.SUCCEEDED}
    assert Counting.count == 1


async def test_a_failed_lookup_is_not_kept(settings: RunnerSettings) -> None:
    class FirstFails(Answers):
        has_failed = False

        def __call__(self, host: str, port: int) -> AddrInfos:
            if not self.has_failed:
                self.has_failed = True
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            return super().__call__(host, port)

    async with (
        serve_endpoint(respond("{}")) as endpoint,
        opened(settings, FirstFails("127.0.0.1"), "*.example") as calls,
    ):
        outcomes = [await call(calls, endpoint.url(host="one.example")) for _ in range(2)]

    assert [each.status for each in outcomes] == [RunStatus.FAILED, RunStatus.SUCCEEDED]


@pytest.fixture
def no_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_gc")
async def test_a_request_leaves_no_garbage_that_only_the_collector_finds(calls: EndpointCaller) -> None:
    """A busy node collects rarely, so cycles would pile up (`tune_interpreter`)."""
    async with serve_endpoint(respond("{}")) as endpoint:
        await calls.run(make_job(endpoint.get()))
        left = [each for each in gc.get_objects() if isinstance(each, connection.ResponseReader)]

    assert left == []
