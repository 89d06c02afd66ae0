"""Another program locks the ledger for seconds, again and again, while the nodes live: no instant is lost.

What waited for the lock is called `ran` only where the target has started it.
"""

import random
import sqlite3
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from tests.support.fault_fleet import POLICIES, FaultFleet, make_policies_yaml
from tests.support.postgres_fleet import PostgresFleet
from tests.support.seeds import SEEDS, choose_seed

from herdbeat.store.location import PostgresLocation

SECONDS = 60
LEASE = timedelta(seconds=30)
"""In PostgreSQL, longer than any of the locks: no node is taken for dead. In SQLite a lock ends no lease."""

LOCKED_TABLES = ("schedule", "beat", "run")
LOCK_MODES = ("EXCLUSIVE", "ACCESS EXCLUSIVE")


def hold_locks(seed: str, lock: Callable[[random.Random], object], release: Callable[[], object]) -> None:
    """Hold the lock for most of a minute, with short breaks."""
    chance = random.Random(choose_seed(seed))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        lock(chance)
        time.sleep(chance.uniform(2, 9))
        release()
        time.sleep(chance.uniform(0.1, 3))


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_minute_of_write_locks_in_sqlite(tmp_path: Path, seed: str) -> None:
    fleet = FaultFleet.create(tmp_path, make_policies_yaml(), crons=POLICIES)
    fleet.start()
    fleet.wait_for_starts(20)
    other = sqlite3.connect(tmp_path / ".herdbeat" / "herdbeat.db", isolation_level=None, timeout=60)
    hold_locks(seed, lambda _: other.execute("BEGIN IMMEDIATE"), lambda: other.execute("ROLLBACK"))
    other.close()
    fleet.wait_for_starts(60)
    fleet.stop()

    fleet.check_against_oracle()
    fleet.check_nothing_missed()


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seconds", [15, 40])
def test_a_lock_much_longer_than_the_lease_is_not_called_sleep(tmp_path: Path, seconds: float) -> None:
    fleet = FaultFleet.create(tmp_path, make_policies_yaml(), crons=POLICIES)
    fleet.start()
    fleet.wait_for_starts(20)
    other = sqlite3.connect(tmp_path / ".herdbeat" / "herdbeat.db", isolation_level=None, timeout=60)
    other.execute("BEGIN IMMEDIATE")
    time.sleep(seconds)
    other.execute("ROLLBACK")
    other.close()
    fleet.wait_for_starts(60)
    fleet.stop()

    fleet.check_against_oracle()
    fleet.check_nothing_missed()


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_minute_of_table_locks_in_postgres(tmp_path: Path, database: PostgresLocation, seed: str) -> None:
    fleet = PostgresFleet.create(tmp_path, database, make_policies_yaml(), crons=POLICIES, lease=LEASE)

    def lock(chance: random.Random) -> None:
        """One table at a time: two of them could deadlock with a node."""
        table, mode = chance.choice(LOCKED_TABLES), chance.choice(LOCK_MODES)
        other.execute(f"LOCK TABLE {table} IN {mode} MODE".encode())

    try:
        fleet.start_all(1, 2)
        fleet.wait_for_starts(20)
        with psycopg.connect(database.url) as other:
            hold_locks(seed, lock, other.rollback)
        fleet.wait_for_starts(60)
        fleet.stop_all()
    finally:
        fleet.end()

    fleet.check_against_oracle()
