"""Three nodes and five hundred schedules, while nodes are killed all the time."""

import random
import time
from pathlib import Path

import pytest
from tests.support.fault_fleet import LONG
from tests.support.postgres_fleet import PostgresFleet, make_herd_yaml
from tests.support.seeds import SEEDS, choose_seed

from herdbeat.store.location import PostgresLocation

SECONDS = 60
SCHEDULES = 500


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_minute_of_kills_among_three_nodes(tmp_path: Path, database: PostgresLocation, seed: str) -> None:
    """A node lives between 0.1 and 9 seconds; some die before they are ready."""
    chance = random.Random(choose_seed(seed))
    fleet = PostgresFleet.create(tmp_path, database, make_herd_yaml(SCHEDULES, range(2, 7)))
    kills = 0
    try:
        fleet.start_all(1, 2, 3)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.1, 3))
            victim = chance.choice((1, 2, 3))
            fleet.kill(victim)
            fleet.begin(victim)
            kills += 1
        fleet.wait_for_starts(1_000)
        fleet.stop_all()
    finally:
        fleet.end()

    fleet.check_against_oracle()
    recovery, wait = fleet.longest_recovery(), fleet.longest_wait()
    print(f"{kills} kills, {len(fleet.starts())} starts, longest recovery {recovery}, longest wait {wait}")
    assert recovery < LONG
