"""Fixtures: a clock that sleeping moves, a GitHub-shaped server, and clients of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.fake_github import NOW, REPO, TOKEN, FakeGitHub, serve_github

from herdbeat.testing import FakeClock
from herdbeat.work.base import Sleep
from herdbeat.work.github import GitHubSettings, GitHubSource
from herdbeat.work.github_client import GitHubClient
from herdbeat.work.github_tokens import PersonalToken
from herdbeat.work.http import HttpTransport

MakeSource = Callable[..., GitHubSource]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def sleep(clock: FakeClock) -> Sleep:
    async def advance(seconds: float) -> None:
        clock.advance(timedelta(seconds=seconds))
        await asyncio.sleep(0)

    return advance


@pytest.fixture
async def github(clock: FakeClock) -> AsyncIterator[FakeGitHub]:
    async with serve_github(clock) as server:
        yield server


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    async with HttpTransport() as opened:
        yield opened


@pytest.fixture
def make_source(github: FakeGitHub, clock: FakeClock, sleep: Sleep, transport: HttpTransport) -> MakeSource:
    """Return a function that starts a client anew, as a restarted node does."""
    return bind_source(github, clock, sleep, transport)


def bind_source(github: FakeGitHub, clock: FakeClock, sleep: Sleep, transport: HttpTransport) -> MakeSource:
    def make(
        token: str = TOKEN, through: HttpTransport | None = None, page_size: int = 100, **settings: Any
    ) -> GitHubSource:
        options = replace(GitHubSettings(repo=REPO), **settings)
        client = GitHubClient(
            through or transport,
            PersonalToken(token),
            clock,
            sleep,
            api_url=github.url,
            write_interval=timedelta(),
            page_size=page_size,
        )
        return GitHubSource(options, client, sleep)

    return make
