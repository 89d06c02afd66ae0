"""Another program locks the ledger for seconds, again and again, while the node lives: no instant is lost."""

import random
import sqlite3
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.fault_fleet import POLICIES, FaultFleet, make_policies_yaml

SECONDS = 60


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(2))
def test_a_minute_of_locks(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    fleet = FaultFleet.create(tmp_path, make_policies_yaml(), crons=POLICIES, lease=timedelta(seconds=30))
    fleet.start()
    fleet.wait_for_starts(20)
    other = sqlite3.connect(tmp_path / ".herdbeat" / "herdbeat.db", isolation_level=None, timeout=60)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(chance.uniform(2, 9))
        other.execute("ROLLBACK")
        time.sleep(chance.uniform(0.1, 3))
    other.close()
    fleet.wait_for_starts(60)
    fleet.stop()

    fleet.check_against_oracle()
