"""The command line in an empty folder, on Thursday 26 March 2026, 13:04 UTC."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    now = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
    return CommandLine(folder=tmp_path, clock=FakeClock(now), environ={"TZ": "Europe/Berlin"})
