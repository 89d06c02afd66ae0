"""What a claim hands to the completion: known as long as nobody may have changed it, and read again after that."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.store_contract import FIVE_MINUTES, NOW, build_fleet

from herdbeat.governor import Pause
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, claim_due
from herdbeat.store.base import ScheduleSnapshot, Transaction
from herdbeat.store.sqlite.connection import KNOWN_WRITES, find_foreign_writes
from herdbeat.store.sqlite.store import SqliteStore, SqliteTransaction
from herdbeat.store.statements import load_statements


def claim_one(store: SqliteStore) -> tuple[int, int]:
    """Return the schedule and the run of the only beat that is due."""

    def claim(tx: Transaction) -> tuple[int, int]:
        apply_fleet(tx, build_fleet(poll=FIVE_MINUTES), NOW)
        claims = claim_due(tx, NOW, ClaimContext(1, 10, CatchupPacer(10))).claims
        return claims[0].schedule_id, claims[0].run_id

    return store.write_now(claim)


def count_known(store: SqliteStore, schedule_id: int, run_id: int) -> int:
    def count(tx: Transaction) -> int:
        assert isinstance(tx, SqliteTransaction)
        schedules, _ = tx.claimed.find_schedules([schedule_id])
        runs, _ = tx.claimed.find_runs([run_id])
        return len(schedules) + len(runs)

    return store.write_now(count)


def read_snapshot(store: SqliteStore, schedule_id: int) -> ScheduleSnapshot:
    return store.write_now(lambda tx: tx.schedules([schedule_id])[schedule_id])


def open_store(folder: Path) -> SqliteStore:
    store = SqliteStore(folder / "herdbeat.db")
    store.open()
    return store


def test_what_was_claimed_is_known_until_it_is_completed(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        schedule_id, run_id = claim_one(store)

        assert count_known(store, schedule_id, run_id) == 2
        assert read_snapshot(store, schedule_id).running == 1


def test_a_pause_during_the_run_is_seen_by_its_completion(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        schedule_id, run_id = claim_one(store)

        pause = Pause(until=NOW + timedelta(hours=1), by="ana", reason="holiday")
        store.write_now(lambda tx: tx.set_pause(schedule_id, pause))

        assert count_known(store, schedule_id, run_id) == 0
        assert read_snapshot(store, schedule_id).pause == pause


def test_what_another_connection_has_written_is_seen(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        schedule_id, run_id = claim_one(store)

        with closing(sqlite3.connect(store.path)) as other, other:
            other.execute("UPDATE schedule SET failures = 3")

        assert count_known(store, schedule_id, run_id) == 0
        assert read_snapshot(store, schedule_id).failures == 3


def test_nothing_is_known_of_a_claim_that_was_rolled_back(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        schedule_id, run_id = claim_one(store)

        def fail(tx: Transaction) -> None:
            tx.set_disabled(schedule_id, "ana")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.write_now(fail)

        assert count_known(store, schedule_id, run_id) == 0
        assert read_snapshot(store, schedule_id).enabled


def test_every_write_is_followed_or_forgets_all_rows() -> None:
    statements = load_statements("sqlite")

    foreign = find_foreign_writes()

    assert statements.keys() >= KNOWN_WRITES
    assert {"set_pause", "add_hint", "edit_schedules", "reserve", "mark_retries", "end_one_shots"} <= foreign
    assert not {"due_schedules", "open_runs", "next_wake", "target_capacity"} & foreign
