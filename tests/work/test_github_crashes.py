"""Nodes that die at every request, and several clients with random faults: nothing is lost, doubled or stuck.

The oracle reads the server's state, not the clients' answers. A kill is a client that is dropped in the middle of a
request, before or after the server has executed it; the next one starts with what a store would know.
"""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.fake_github import OWNER, FakeGitHub, serve_github
from tests.support.work_fleet import DyingTransport, Fleet, work_until_killed
from tests.work.conftest import MakeSource, bind_source

from herdbeat.testing import FakeClock
from herdbeat.work.base import Sleep, WorkSourceFailed
from herdbeat.work.github import GitHubSource
from herdbeat.work.github_history import parse_marker
from herdbeat.work.http import HttpTransport

MakeServerSource = Callable[[FakeGitHub], MakeSource]


def check_outcome(github: FakeGitHub) -> None:
    """Every issue is closed by exactly one report of success, with one report per run, and no label is left."""
    for issue in github.issues.values():
        assert (issue.state, issue.labels) == ("closed", []), f"#{issue.number} is stuck"
        markers = [parse_marker(comment["body"]) for comment in issue.comments]
        reports = [marker for marker in markers if marker and marker[0] != "claim"]
        assert len(reports) == len(set(reports)), f"#{issue.number} was reported twice"
        succeeded = [comment for comment in issue.comments if "succeeded" in comment["body"]]
        assert len(succeeded) == 1, f"#{issue.number} has {len(succeeded)} reports of success"


async def die_and_recover(
    clock: FakeClock, github: FakeGitHub, make_source: MakeSource, at_request: int, *, after: bool, failures: int
) -> bool:
    """Kill a node at one request, start another, and check. False if the node had fewer requests to make."""
    fleet = Fleet(clock, "n", succeeds=lambda run: run > failures)
    async with DyingTransport(at_request, after=after) as transport:
        has_died = await work_until_killed(fleet, make_source(through=transport))
    await fleet.finish(make_source)
    check_outcome(github)
    assert fleet.runs["1"] <= failures + 2, "at most the interrupted run is repeated"
    return has_died


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("failures", [0, 1])
async def test_a_node_that_dies_at_any_request_loses_doubles_and_blocks_nothing(
    clock: FakeClock, sleep: Sleep, make_server_source: MakeServerSource, after: bool, failures: int
) -> None:
    for at_request in range(1, 200):
        async with serve_github(clock) as github:
            github.add(1, "ready", by=OWNER)
            make = make_server_source(github)
            if not await die_and_recover(clock, github, make, at_request, after=after, failures=failures):
                break
    assert at_request > 15, "it died at every request of a claim and a report"


@pytest.fixture
def make_server_source(clock: FakeClock, sleep: Sleep, transport: HttpTransport) -> MakeServerSource:
    return lambda github: bind_source(github, clock, sleep, transport)


FAULTS: list[dict[str, Any]] = [
    {"status": 0},
    {"status": 0, "executes": True},
    {"status": 502},
    {"status": 502, "executes": True},
    {"status": 403, "headers": {"Retry-After": "3"}, "body": {"message": "secondary rate limit"}},
    {"status": 429, "headers": {"Retry-After": "600"}, "body": {"message": "secondary rate limit"}},
]
PLACES = [("GET", "/issues"), ("GET", "/timeline"), ("POST", "/comments"), ("POST", "/labels"), ("DELETE", "/labels")]


async def work_through_faults(fleet: Fleet, github: FakeGitHub, source: GitHubSource, chance: random.Random) -> None:
    for _ in range(12):
        if chance.random() < 0.5:
            method, part = chance.choice(PLACES)
            github.fail(method, part, **chance.choice(FAULTS))
        try:
            await fleet.recover(source)
            await fleet.work_once(source)
        except WorkSourceFailed as error:
            if error.permanent:
                raise
            fleet.clock.advance(error.retry_after or timedelta(minutes=chance.randint(0, 12)))


@pytest.mark.parametrize("seed", range(8))
async def test_several_clients_with_random_faults_lose_double_and_block_nothing(
    github: FakeGitHub, make_source: MakeSource, clock: FakeClock, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(1, 9):
        github.add(number, "ready")
    holding: set[str] = set()
    tokens = ["ghp_botbotbotbot0000", "ghp_botbotbotbot0000", "ghp_otherbot00000000"]
    fleets = [Fleet(clock, f"f{n}", lambda run: chance.random() < 0.7, holding) for n in range(len(tokens))]

    pairs = list(zip(fleets, tokens, strict=True))
    await asyncio.gather(
        *(work_through_faults(fleet, github, make_source(token, page_size=4), chance) for fleet, token in pairs)
    )
    github.faults.clear()
    for fleet, token in pairs:
        fleet.succeeds = lambda run: True
        await fleet.finish(lambda token=token: make_source(token, page_size=4))  # type: ignore[misc]
    for number, issue in github.issues.items():
        if issue.state == "open" and not issue.labels:  # given up after its last attempt: a person offers it again
            github.label(number, "ready")
    await fleets[0].finish(make_source)

    check_outcome(github)
    assert github.log[-1].status < 400
