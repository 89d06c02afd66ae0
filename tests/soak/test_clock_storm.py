"""The clock goes back and forth under running nodes: each instant has one outcome, and each `ran` is one start."""

import os
import random
from pathlib import Path

import pytest
from tests.support.clock_storm import PostgresStorm, SqliteStorm, check_storm, set_clock_at_random

from herdbeat.store.location import PostgresLocation

TURNS = 30
SEEDS = os.environ.get("HERDBEAT_SEEDS", "1 any").split()
"""`HERDBEAT_SEEDS="7 8" make soak` repeats a failure. `any` is a new seed each time, which is printed."""


def number_of(seed: str) -> int:
    number = random.randrange(10**6) if seed == "any" else int(seed)
    print(f"HERDBEAT_SEEDS={number}")
    return number


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_of_clocks_on_sqlite(tmp_path: Path, seed: str) -> None:
    fleet = SqliteStorm.begin(tmp_path)
    try:
        set_clock_at_random(fleet, number_of(seed), TURNS)
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
        set_clock_at_random(fleet, number_of(seed), TURNS)
    finally:
        fleet.stop()

    check_storm(fleet)
