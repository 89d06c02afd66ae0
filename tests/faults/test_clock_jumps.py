"""The clock is moved while a node runs: no instant is lost or doubled, and the gap is recorded with its reason."""

import sqlite3
from pathlib import Path

import pytest
from tests.support.fault_fleet import FaultFleet

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
