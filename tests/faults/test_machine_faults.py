"""Faults of the machine: suspended processes, locked or full disks, memory."""

import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.fault_fleet import LEASE, POLICIES, ROOT, FaultFleet, make_policies_yaml, wait_until

from herdbeat.clock import SystemClock
from herdbeat.timestamps import from_micros


@pytest.fixture
def fleet(tmp_path: Path) -> FaultFleet:
    return FaultFleet.create(tmp_path)


def ledger(fleet: FaultFleet) -> Path:
    return fleet.folder / ".herdbeat" / "herdbeat.db"


def time_since_heartbeat(fleet: FaultFleet) -> timedelta:
    """Return the time since the last heartbeat in the ledger."""
    micros: int
    (micros,) = sqlite3.connect(ledger(fleet)).execute("SELECT max(seen_at) FROM node").fetchone()
    return SystemClock().now() - from_micros(micros)


def test_a_process_stopped_for_longer_than_its_lease_continues_and_records_the_gap(fleet: FaultFleet) -> None:
    fleet.start()
    fleet.wait_for_starts(3)
    assert fleet.process is not None
    fleet.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: time_since_heartbeat(fleet) > 2 * LEASE, lambda: "somebody still shows signs of life")

    fleet.process.send_signal(signal.SIGCONT)
    fleet.wait_for_starts(3)
    fleet.stop()

    fleet.check_against_oracle()
    reasons = sqlite3.connect(ledger(fleet)).execute("SELECT DISTINCT reason FROM gap").fetchall()
    assert ("slept",) in reasons


def test_a_second_node_is_refused_with_the_pid_of_the_first(fleet: FaultFleet) -> None:
    fleet.start()
    assert fleet.process is not None

    second = _started_beside(fleet)

    assert f"pid {fleet.process.pid}" in second.stderr
    fleet.wait_for_starts(2)
    fleet.stop()
    fleet.check_against_oracle()


def test_a_ledger_locked_by_another_program_only_delays(fleet: FaultFleet) -> None:
    """The node lived, so nothing is missed. A lock of three seconds was recorded as sleep."""
    fleet.start()
    fleet.wait_for_starts(2)
    other = sqlite3.connect(ledger(fleet), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    # The writer gives up after two seconds. Two in a row are longer than what a stopped process is noticed by.
    wait_until(lambda: fleet.log().count("claim failed") > 2, fleet.log)

    other.execute("ROLLBACK")
    other.close()
    fleet.wait_for_starts(3)
    fleet.stop()

    fleet.check_against_oracle()
    fleet.check_nothing_missed()


def test_instants_that_waited_for_a_locked_ledger_are_called_ran_only_if_they_started(tmp_path: Path) -> None:
    """Six of them were one row, which got one run and was then `ran x6`."""
    fleet = FaultFleet.create(tmp_path, make_policies_yaml(), crons=POLICIES, lease=timedelta(seconds=30))
    fleet.start()
    fleet.wait_for_starts(20)
    other = sqlite3.connect(ledger(fleet), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    fleet.wait_for_log_text("database is locked")

    other.execute("ROLLBACK")
    other.close()
    fleet.wait_for_starts(40)
    fleet.stop()

    fleet.check_against_oracle()


def test_a_start_waits_for_a_program_that_has_locked_the_ledger_and_does_not_end(fleet: FaultFleet) -> None:
    """It ended with "database is locked", and said that it tries again."""
    fleet.start()
    fleet.wait_for_starts(1)
    fleet.stop()

    with closing(sqlite3.connect(ledger(fleet), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        starting = threading.Thread(target=fleet.start)
        starting.start()
        fleet.wait_for_log_text("start waits for the ledger")
        other.execute("ROLLBACK")
    starting.join()

    fleet.wait_for_starts(2)
    fleet.stop()
    fleet.check_against_oracle()


def test_a_stop_while_the_ledger_is_locked_ends_and_the_next_start_rescues_its_runs(tmp_path: Path) -> None:
    """It used to wait for the ledger until somebody killed it."""
    begun = tmp_path / "begun"
    slow = f"  - {{ name: slow, command: [sh, -c, 'touch {begun}; sleep 1'], every: 1h }}\n"
    fleet = FaultFleet.create(tmp_path, slow)
    fleet.start()
    wait_until(begun.exists, fleet.log)
    other = sqlite3.connect(ledger(fleet), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert fleet.process is not None
    assert fleet.process.stdout is not None

    fleet.process.send_signal(signal.SIGTERM)
    message = fleet.process.stdout.read().decode()
    fleet.wait_for_end()
    other.execute("ROLLBACK")
    other.close()
    fleet.start()
    fleet.wait_for_starts(2)
    fleet.stop()

    assert "could not be written" in message
    assert "interrupted at the next start" in message
    fleet.check_against_oracle()
    statuses = sqlite3.connect(ledger(fleet)).execute("SELECT DISTINCT status FROM run").fetchall()
    assert ("interrupted",) in statuses


def test_a_full_disk_stops_new_starts_and_nothing_else(fleet: FaultFleet) -> None:
    fleet.start()
    fleet.wait_for_starts(2)
    assert fleet.process is not None
    size = ledger(fleet).with_suffix(".db-wal").stat().st_size
    resource.prlimit(fleet.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    fleet.wait_for_log_text("claim failed")

    resource.prlimit(fleet.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    fleet.wait_for_starts(3)
    fleet.stop()

    fleet.check_against_oracle()


def _started_beside(fleet: FaultFleet) -> subprocess.CompletedProcess[str]:
    """Start a node that must be rejected: it ends by itself."""
    command = [sys.executable, "-m", "tests.faults.node_process", str(fleet.folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (b"this is not a database, but it is somebody's file" * 100, "does not replace a"),
        ("newer", "newer version of herdbeat"),
    ],
    ids=["garbage", "newer"],
)
def test_a_ledger_that_cannot_be_read_is_refused_and_left_alone(
    fleet: FaultFleet, what: bytes | str, message: str
) -> None:
    path = ledger(fleet)
    path.parent.mkdir()
    if isinstance(what, bytes):
        path.write_bytes(what)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 999")
    before = path.read_bytes()

    refused = _started_beside(fleet)

    assert refused.returncode != 0
    assert message in refused.stderr
    assert path.read_bytes() == before
