"""The runners of a node that starts and ends with the test."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.runner_jobs import NOON

from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock


@pytest.fixture
def settings(tmp_path: Path) -> RunnerSettings:
    return RunnerSettings(
        state_dir=tmp_path / "state",
        environ={"PATH": os.environ["PATH"], "LC_TIME": "C", "OUR_TOKEN": "token", "OUR_SECRET": "secret"},
        kill_after=timedelta(seconds=0.3),
        pipe_grace=timedelta(seconds=0.3),
    )


@pytest.fixture
async def runners(settings: RunnerSettings) -> AsyncIterator[RunnerRegistry]:
    async with open_runners(settings, FakeClock(NOON)) as opened:
        yield opened
