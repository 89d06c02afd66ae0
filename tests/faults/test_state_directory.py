"""Somebody tampers with the state directory, under a running node or before it starts."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.fault_fleet import ROOT, FaultFleet, wait_until

from herdbeat.store.sqlite.backup import backup_ledger, find_damage

NODE = [sys.executable, "-m", "tests.faults.node_process"]


@pytest.fixture
def fleet(tmp_path: Path) -> FaultFleet:
    return FaultFleet.create(tmp_path)


def state_dir(fleet: FaultFleet) -> Path:
    return fleet.folder / ".herdbeat"


def ledger(fleet: FaultFleet) -> Path:
    return state_dir(fleet) / "herdbeat.db"


def start_refused(fleet: FaultFleet) -> str:
    """Start a node that must be refused; return what it says."""
    refused = subprocess.run([*NODE, str(fleet.folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    return refused.stderr


def test_a_removed_lock_file_lets_no_second_node_in(fleet: FaultFleet) -> None:
    fleet.start()
    fleet.wait_for_starts(2)
    lock = state_dir(fleet) / "lock"
    lock.unlink()

    refused = start_refused(fleet)

    fleet.wait_for_starts(2)
    # The first node has put it back, so that `herdbeat down` finds its pid.
    assert fleet.process is not None
    own_pid = f"{fleet.process.pid}\n"
    wait_until(lambda: lock.exists() and lock.read_text(encoding="utf-8") == own_pid, fleet.log)
    fleet.stop()
    assert "already running" in refused
    fleet.check_against_oracle()
    with closing(sqlite3.connect(ledger(fleet))) as connection:
        assert connection.execute("SELECT count(*) FROM node").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM gap").fetchone() == (0,)


RUNS_QUERY = """
SELECT target.name || '/' || schedule.name || ':' || dedup_id || ' ' || run.attempt
  FROM run JOIN beat ON beat.id = beat_id
  JOIN schedule ON schedule.id = run.schedule_id JOIN target ON target.id = schedule.target_id"""


def _remove(path: Path) -> None:
    path.unlink()


def _replace(path: Path) -> None:
    draft = path.with_name("draft")
    with closing(sqlite3.connect(draft)) as connection:
        connection.execute("CREATE TABLE schedule (id INTEGER)")
    draft.replace(path)


def _move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


@pytest.mark.parametrize("tamper", [_remove, _replace, _move_folder])
def test_a_node_whose_ledger_is_taken_away_ends_and_starts_nothing_that_is_not_in_it(
    fleet: FaultFleet, tamper: Callable[[Path], None]
) -> None:
    """It used to go on in the deleted file: 76 starts, of which the ledger had 24."""
    fleet.start()
    fleet.wait_for_starts(2)
    with closing(sqlite3.connect(ledger(fleet))) as reader:  # it keeps the file that the node had open
        reader.execute(RUNS_QUERY).fetchall()

        tamper(ledger(fleet))

        assert fleet.wait_for_end() != 0
        recorded = {label for (label,) in reader.execute(RUNS_QUERY)}
    assert "was removed" in fleet.log()
    assert "Traceback" not in fleet.log()
    assert set(fleet.starts()) <= recorded


def test_a_ledger_that_was_replaced_is_not_mixed_with_the_journal_of_the_old_one(fleet: FaultFleet) -> None:
    fleet.start()
    fleet.wait_for_starts(2)
    _replace(ledger(fleet))
    fleet.wait_for_end()

    with closing(sqlite3.connect(ledger(fleet))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()

    assert tables == [("schedule",)]


def test_a_backup_copied_over_the_ledger_of_a_running_node_ends_it_and_stays_as_it_was(fleet: FaultFleet) -> None:
    """It used to go on with pages of both: 16 starts, of which the ledger had 10."""
    fleet.start()
    fleet.wait_for_starts(1)
    backup = fleet.folder / "backup.db"
    backup_ledger(ledger(fleet), backup)
    fleet.wait_for_starts(4)
    with closing(sqlite3.connect(ledger(fleet))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    shutil.copyfile(backup, ledger(fleet))

    assert fleet.wait_for_end() != 0
    assert "replaced or truncated while herdbeat was using it" in fleet.log()
    assert ledger(fleet).read_bytes() == backup.read_bytes()
    assert not find_damage(ledger(fleet))


def test_another_program_that_moves_the_log_into_the_ledger_does_not_end_the_node(fleet: FaultFleet) -> None:
    fleet.start()
    for starts in range(1, 5):
        fleet.wait_for_starts(starts)
        with closing(sqlite3.connect(ledger(fleet))) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    fleet.wait_for_starts(8)
    fleet.kill()

    assert "replaced" not in fleet.log()


def test_a_ledger_that_is_truncated_under_a_node_ends_it(fleet: FaultFleet) -> None:
    fleet.start()
    fleet.wait_for_starts(2)

    os.truncate(ledger(fleet), 0)

    assert fleet.wait_for_end() != 0
    assert "truncated while herdbeat was using it" in fleet.log()


def test_a_node_whose_journal_is_taken_away_ends_and_loses_nothing(fleet: FaultFleet) -> None:
    """It used to go on: no other program saw its beats, and of 9 starts a killed node had recorded 1."""
    fleet.start()
    fleet.wait_for_starts(2)

    ledger(fleet).with_name("herdbeat.db-wal").unlink()

    assert fleet.wait_for_end() != 0
    assert "herdbeat.db-wal was removed" in fleet.log()
    with closing(sqlite3.connect(ledger(fleet))) as reader:
        recorded = {label for (label,) in reader.execute(RUNS_QUERY)}
    assert set(fleet.starts()) <= recorded


def test_a_node_whose_journal_was_truncated_went_on_and_lost_all_of_it_when_it_was_killed(fleet: FaultFleet) -> None:
    """SQLite went on behind the hole: other programs called the file malformed, and of 9 starts it had recorded 0."""
    fleet.start()
    fleet.wait_for_starts(2)

    os.truncate(ledger(fleet).with_name("herdbeat.db-wal"), 0)

    assert fleet.wait_for_end() != 0
    assert "herdbeat.db-wal was removed, replaced or truncated" in fleet.log()
    with closing(sqlite3.connect(ledger(fleet))) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_an_empty_file_is_not_taken_for_a_new_ledger(fleet: FaultFleet) -> None:
    state_dir(fleet).mkdir(mode=0o700)
    ledger(fleet).touch()

    assert "does not replace a" in start_refused(fleet)
    assert ledger(fleet).stat().st_size == 0


def test_a_journal_without_its_ledger_is_refused(fleet: FaultFleet) -> None:
    fleet.start()
    fleet.wait_for_starts(1)
    fleet.kill()
    ledger(fleet).unlink()

    assert "was deleted while it was in use" in start_refused(fleet)
    assert not ledger(fleet).exists()


def test_a_state_directory_that_others_may_write_into_is_refused(fleet: FaultFleet) -> None:
    state_dir(fleet).mkdir()
    state_dir(fleet).chmod(0o777)

    refused = start_refused(fleet)

    assert f"chmod go-w {state_dir(fleet)}" in refused
    assert list(state_dir(fleet).iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_state_directory_of_another_user_is_refused(fleet: FaultFleet) -> None:
    state_dir(fleet).mkdir(mode=0o700)
    os.chown(state_dir(fleet), 65_534, 65_534)

    assert "belongs to another user" in start_refused(fleet)


def test_a_new_state_directory_is_private(fleet: FaultFleet) -> None:
    fleet.start()
    fleet.stop()

    assert state_dir(fleet).stat().st_mode & 0o777 == 0o700
    assert ledger(fleet).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["lock", "herdbeat.db", "herdbeat.db-wal", "herdbeat.db-shm"])
def test_a_planted_link_is_not_followed(fleet: FaultFleet, name: str) -> None:
    victim = fleet.folder / "victim"
    victim.write_text("precious", encoding="utf-8")
    state_dir(fleet).mkdir(mode=0o700)
    (state_dir(fleet) / name).symlink_to(victim)

    refused = start_refused(fleet)

    assert "is a symbolic link" in refused
    assert victim.read_text(encoding="utf-8") == "precious"


def test_logs_do_not_go_where_a_planted_link_leads(tmp_path: Path) -> None:
    talker = f"  - {{ name: talker, command: [sh, -c, 'echo hello; touch {tmp_path}/said'], every: 1h }}\n"
    fleet = FaultFleet.create(tmp_path, talker)
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    state_dir(fleet).mkdir(mode=0o700)
    (state_dir(fleet) / "logs").symlink_to(elsewhere)

    fleet.start()
    wait_until((tmp_path / "said").exists, fleet.log)
    fleet.wait_for_log_text("run log stopped")
    fleet.stop()

    assert list(elsewhere.iterdir()) == []  # nor an empty folder for the day
