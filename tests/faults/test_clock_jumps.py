"""The clock is moved while a node runs: no instant is lost or doubled, and the gap is recorded with its reason."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.clock_storm import PostgresStorm, SqliteStorm, check_storm
from tests.support.fault_fleet import FaultFleet

from herdbeat.store.location import PostgresLocation
from herdbeat.timestamps import parse_timestamp

HOUR = 3_600
DAY = 24 * HOUR


def reasons(fleet: FaultFleet) -> set[str]:
    connection = sqlite3.connect(fleet.folder / ".herdbeat" / "herdbeat.db")
    try:
        return {row[0] for row in connection.execute("SELECT reason FROM gap")}
    finally:
        connection.close()


@pytest.mark.parametrize("seconds", [HOUR, DAY], ids=["an hour", "a day"])
def test_a_clock_set_forward_is_a_gap_of_one_row(tmp_path: Path, seconds: int) -> None:
    fleet = FaultFleet.create(tmp_path)
    fleet.start()
    fleet.wait_for_starts(2)

    fleet.set_clock(seconds)
    fleet.wait_for_starts(3)
    fleet.stop()

    fleet.check_against_oracle()
    assert "clock_jumped" in reasons(fleet)


def test_a_clock_set_forward_by_ten_years_writes_one_row(tmp_path: Path) -> None:
    fleet = FaultFleet.create(tmp_path)
    fleet.start()
    fleet.wait_for_starts(2)

    fleet.set_clock(3_650 * DAY)
    fleet.wait_for_starts(3)
    fleet.stop()

    connection = sqlite3.connect(fleet.folder / ".herdbeat" / "herdbeat.db")
    missed = connection.execute("SELECT count, reason FROM beat WHERE outcome = 'missed' AND count > 1000").fetchall()
    connection.close()
    assert len(missed) == 1
    assert missed[0][0] > 3_649 * DAY
    assert missed[0][1] == "clock_jumped"


def test_a_clock_set_back_starts_nothing_twice_and_continues(tmp_path: Path) -> None:
    fleet = FaultFleet.create(tmp_path)
    fleet.set_clock(HOUR)
    fleet.start()
    fleet.wait_for_starts(2)

    fleet.set_clock(0)
    fleet.wait_for_starts(3)
    fleet.stop()

    assert len(set(fleet.starts())) == len(fleet.starts())


def test_a_night_without_power_is_recorded_by_the_next_node(tmp_path: Path) -> None:
    fleet = FaultFleet.create(tmp_path)
    fleet.start()
    fleet.wait_for_starts(2)
    fleet.kill()

    fleet.set_clock(8 * HOUR)
    fleet.start()
    fleet.wait_for_starts(3)
    fleet.stop()

    fleet.check_against_oracle()
    assert "scheduler_down" in reasons(fleet)


@pytest.mark.parametrize("seconds", [20, HOUR], ids=["twenty seconds", "an hour"])
def test_a_clock_set_back_and_forward_again_counts_no_instant_twice(tmp_path: Path, seconds: int) -> None:
    """Once, two minutes back and forward again made 154 beats of 131 instants: 23 had run and were missed, too."""
    storm = SqliteStorm.begin(tmp_path)
    try:
        set_back_and_forward(storm, seconds)
    finally:
        storm.stop()

    check_storm(storm)


@pytest.mark.parametrize("seconds", [20, HOUR], ids=["twenty seconds", "an hour"])
def test_a_database_clock_set_back_and_forward_again_counts_no_instant_twice(
    tmp_path: Path, database: PostgresLocation, seconds: int
) -> None:
    storm = PostgresStorm.begin(tmp_path, database, 2)
    try:
        set_back_and_forward(storm, seconds)
    finally:
        storm.stop()

    check_storm(storm)


def set_back_and_forward(storm: SqliteStorm | PostgresStorm, seconds: int) -> None:
    for offset in (-seconds, 0, -seconds, 0):
        storm.set_clock(offset)
        storm.wait_for_starts(12)


def test_a_clock_set_back_while_nothing_runs_is_noticed_by_the_next_node(tmp_path: Path) -> None:
    storm = SqliteStorm.begin(tmp_path)
    storm.set_clock(2 * HOUR)
    storm.wait_for_starts(12)
    storm.stop()

    storm.set_clock(HOUR)
    storm.fleet.start()
    storm.wait_for_starts(12)
    storm.set_clock(3 * HOUR)
    storm.wait_for_starts(12)
    storm.stop()

    check_storm(storm)


def test_a_clock_that_jumps_between_apply_and_the_first_node_is_a_gap(tmp_path: Path) -> None:
    """Once, that made 320 million instants `skipped: already_running`, and started beats ten years late."""
    fleet = FaultFleet.create(tmp_path)
    command = [sys.executable, "-m", "herdbeat", "apply"]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    fleet.set_clock(3_650 * DAY)
    fleet.start()
    fleet.wait_for_starts(4)
    fleet.stop()

    with closing(sqlite3.connect(tmp_path / ".herdbeat" / "herdbeat.db")) as connection:
        rows = connection.execute(
            "SELECT outcome, reason, count FROM beat JOIN target ON target.id = target_id WHERE name = 'ticker'"
        ).fetchall()
    assert [(outcome, reason) for outcome, reason, count in rows if count > 1_000] == [("missed", "scheduler_down")]
    started = [parse_timestamp(start.split()[0].partition("cron:")[2]) for start in fleet.starts() if "cron:" in start]
    assert min(started) > datetime.now(UTC) + timedelta(days=3_649), "a beat started ten years late"
