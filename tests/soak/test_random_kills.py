"""kill -9 at random times for a minute: every second is accounted for."""

import random
import time
from pathlib import Path

import pytest
from tests.support.fault_fleet import FaultFleet


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(2))
def test_a_minute_of_kills(tmp_path: Path, seed: int) -> None:
    """A node lives between 0.1 and 3 seconds, so that every step is hit at some time."""
    chance = random.Random(seed)
    fleet = FaultFleet.create(tmp_path)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        fleet.start()
        time.sleep(chance.uniform(0.1, 3))
        fleet.kill()

    fleet.start()
    fleet.wait_for_starts(4)
    fleet.stop()

    fleet.check_against_oracle()
