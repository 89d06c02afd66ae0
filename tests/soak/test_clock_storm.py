"""The clock goes back and forth under running nodes: each instant has one outcome, and each `ran` is one start."""

from pathlib import Path

import pytest
from tests.support.clock_storm import PostgresStorm, SqliteStorm, check_storm, set_clock_at_random
from tests.support.seeds import SEEDS, choose_seed

from herdbeat.store.location import PostgresLocation

TURNS = 30


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_of_clocks_on_sqlite(tmp_path: Path, seed: str) -> None:
    fleet = SqliteStorm.begin(tmp_path)
    try:
        set_clock_at_random(fleet, choose_seed(seed), TURNS)
    finally:
        fleet.stop()

    check_storm(fleet)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_of_clocks_on_postgresql(tmp_path: Path, database: PostgresLocation, seed: str, nodes: int) -> None:
    fleet = PostgresStorm.begin(tmp_path, database, nodes)
    try:
        set_clock_at_random(fleet, choose_seed(seed), TURNS)
    finally:
        fleet.stop()

    check_storm(fleet)
