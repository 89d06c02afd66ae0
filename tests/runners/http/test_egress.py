"""No private address is called, however it is written, unless the operator allows it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.support.http_endpoints import respond, serve_endpoint
from tests.support.runner_jobs import NOON, make_job

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.http.client import EndpointCaller
from herdbeat.runners.http.egress import AddrInfos, lookup_host
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock

REACHING = [
    "127.0.0.1",
    "0.0.0.0",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "localhost",
    "LOCALHOST",
    "example.com@127.0.0.1",
    "user:word@localhost",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "１２７.０.０.１",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
]
"""Spellings that do lead to loopback: only the guard keeps them from being called."""

ODD = [
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.1",
    "127.0.0.1.",
    "0",
    "localhost.",
    "example.com\\@127.0.0.1",
    "127.0.0.1\\@example.com",
    "%31%32%37.0.0.1",
    "[::1]",
    "[::1%25lo]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1%25lo]",
    "[fd00:ec2::254]",
    "169.254.169.254",
    "100.100.100.200",
    "10.0.0.1",
]
"""Spellings that lead elsewhere, or are not accepted as an address."""


@asynccontextmanager
async def opened(
    settings: RunnerSettings, lookup: "Answers | None" = None, *allow: str
) -> AsyncIterator[EndpointCaller]:
    calls = EndpointCaller(replace(settings, egress_allow=allow), FakeClock(NOON), lookup or lookup_host)
    yield calls
    calls.close()


class Answers:
    """A name server that returns these addresses, one after the other, for every name."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)

    def __call__(self, host: str, port: int) -> AddrInfos:
        address = self._addresses.pop(0) if len(self._addresses) > 1 else self._addresses[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        place = (address, port, 0, 0) if ":" in address else (address, port)
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)]


async def call(calls: EndpointCaller, url: str, method: str = "GET") -> Outcome:
    async with asyncio.timeout(10):
        return await calls.run(make_job(EndpointSpec(url=url, method=method)))


@pytest.mark.parametrize("host", [*REACHING, *ODD])
async def test_a_private_address_is_refused_however_it_is_spelt(settings: RunnerSettings, host: str) -> None:
    async with serve_endpoint(respond("{}")) as endpoint, opened(settings) as calls:
        outcome = await call(calls, endpoint.url(host=host))

    assert outcome.status is RunStatus.FAILED
    assert outcome.error.endswith(".")
    assert "user:word" not in outcome.error
    assert not endpoint.requests
    assert not endpoint.left.is_set(), "it was connected to"


@pytest.mark.parametrize("host", REACHING)
async def test_the_same_spelling_is_called_if_the_operator_allows_the_address(
    settings: RunnerSettings, host: str
) -> None:
    async with serve_endpoint(respond("{}")) as endpoint, opened(settings, None, "127.0.0.0/8", "0.0.0.0") as calls:
        outcome = await call(calls, endpoint.url(host=host))

    assert (outcome.status, len(endpoint.requests)) == (RunStatus.SUCCEEDED, 1)


@pytest.mark.parametrize(
    ("host", "what"),
    [
        ("169.254.169.254", "169.254.169.254|a link-local address, used for cloud metadata|169.254.169.254"),
        ("[::ffff:10.0.0.1]", "::ffff:a00:1 (10.0.0.1)|a private address|10.0.0.1"),
        ("[::1]", "::1|a loopback address|::1"),
    ],
)
async def test_a_refusal_names_the_address_and_the_key_to_set(settings: RunnerSettings, host: str, what: str) -> None:
    async with opened(settings) as calls:
        outcome = await call(calls, f"http://{host}/")

    named, kind, key = what.split("|")
    assert outcome.error == (
        f'{named} was not called because it is {kind}. To allow it, add "{key}" to egress.allow in the fleet file.'
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1"])
async def test_a_public_name_that_leads_to_a_private_address_is_refused(settings: RunnerSettings, address: str) -> None:
    async with serve_endpoint(respond("{}")) as endpoint, opened(settings, Answers(address)) as calls:
        outcome = await call(calls, endpoint.url(host="example.com"))

    assert outcome.error.startswith("example.com (")
    assert "egress.allow" in outcome.error
    assert not endpoint.left.is_set()


async def test_a_name_that_changes_its_address_between_two_runs_is_refused_the_second_time(
    settings: RunnerSettings,
) -> None:
    rebinding = Answers("127.0.0.1", "127.0.0.2")
    async with serve_endpoint(respond("{}")) as endpoint, opened(settings, rebinding, "127.0.0.1") as calls:
        first = await call(calls, endpoint.url(host="example.com"), "POST")
        calls._resolver.forget()
        second = await call(calls, endpoint.url(host="example.com"), "POST")

    assert (first.status, second.status) == (RunStatus.SUCCEEDED, RunStatus.FAILED)
    assert second.error.startswith("example.com (127.0.0.2) was not called")


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f000001", "[::ffff:127.0.0.1]", "127.1", "other.example"])
async def test_a_redirect_to_a_private_address_is_refused(settings: RunnerSettings, host: str) -> None:
    async with serve_endpoint(respond("{}")) as inside:
        moved = respond("", "302 Found", Location=inside.url(host=host))
        async with serve_endpoint(moved) as outside, opened(settings, Loopback(), "public.example") as calls:
            outcome = await call(calls, outside.url(host="public.example"))

    assert (outcome.status, len(outside.requests)) == (RunStatus.FAILED, 1)
    assert not inside.left.is_set(), "the redirect was followed"


class Loopback(Answers):
    """A name server that resolves every name to loopback."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1")


async def test_an_allowed_host_may_be_private_and_its_neighbour_may_not(settings: RunnerSettings) -> None:
    async with serve_endpoint(respond("{}")) as endpoint, opened(settings, Loopback(), "*.internal", "db") as calls:
        statuses = [
            (await call(calls, endpoint.url(host=host))).status
            for host in ("a.internal", "db", "internal", "b.db", "a.internal.example.com")
        ]

    yes, no = RunStatus.SUCCEEDED, RunStatus.FAILED
    assert statuses == [yes, yes, no, no, no]


async def test_an_unknown_host_name_is_reported(settings: RunnerSettings) -> None:
    class Nobody(Answers):
        def __call__(self, host: str, port: int) -> AddrInfos:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with opened(settings, Nobody("")) as calls:
        outcome = await call(calls, "http://nowhere.example/?key=hush")

    assert outcome.error == (
        'The host name "nowhere.example" cannot be resolved: Name or service not known.'
        " Correct url, or check DNS on this machine."
    )


async def test_a_silent_name_server_does_not_block_other_lookups(settings: RunnerSettings) -> None:
    """The loop has six threads on a machine with two cores; 40 lookups without response would block every other one."""
    lookup_started = asyncio.Event()
    loop = asyncio.get_running_loop()
    waiting = socket.socketpair()

    class Silent(Loopback):
        def __call__(self, host: str, port: int) -> AddrInfos:
            if host.startswith("dead"):
                loop.call_soon_threadsafe(lookup_started.set)
                waiting[0].recv(1)
            return super().__call__(host, port)

    async with (
        serve_endpoint(respond("{}")) as endpoint,
        opened(settings, Silent(), "*.example") as calls,
        asyncio.TaskGroup() as group,
    ):
        for number in range(40):
            group.create_task(call(calls, endpoint.url(host=f"dead{number}.example")))
        await lookup_started.wait()
        outcome = await call(calls, endpoint.url(host="alive.example"))
        waiting[1].close()

    waiting[0].close()
    assert outcome.status is RunStatus.SUCCEEDED
