"""Callers that may reach loopback, and the logs they leave."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.runner_jobs import NOON

from herdbeat.runners.http.client import EndpointCaller
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock


@pytest.fixture
def open_settings(settings: RunnerSettings) -> RunnerSettings:
    """Return settings with small caps, so that little data exceeds them."""
    return replace(settings, egress_allow=("127.0.0.0/8",), body_cap=100_000, response_cap=10_000)


@pytest.fixture
async def calls(open_settings: RunnerSettings) -> AsyncIterator[EndpointCaller]:
    opened = EndpointCaller(open_settings, FakeClock(NOON))
    yield opened
    opened.close()


@pytest.fixture
def logged(settings: RunnerSettings) -> "Logged":
    return Logged(settings.state_dir)


class Logged:
    """Reads every log that a test has left."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def __str__(self) -> str:
        return "".join(path.read_text() for path in self._state_dir.glob("logs/*/*.jsonl"))
