"""Many schedules of a full target fall due at once, and other targets are not delayed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bench.load.bulk_insert import ScheduleBatch, insert_schedules

from herdbeat.domain.beat import BeatOutcome
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import MAX_CLAIM_BATCH, SATURATED_BATCH_SIZE, ClaimContext, ClaimResult, claim_due
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.sqlite.store import SqliteStore

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
HERD = 4 * MAX_CLAIM_BATCH
FULL = ScheduleBatch(name="full", count=HERD, first_at=NOW, every=HOUR, shared_capacity=0)


def opened(folder: Path, *lots: ScheduleBatch) -> SqliteStore:
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    for lot in lots:
        insert_schedules(store, lot, NOW - HOUR)
    return store


def turns(store: SqliteStore, number: int, now: datetime = NOW) -> list[ClaimResult]:
    """One cycle after another, each with the saturated targets of the one before."""
    done: list[ClaimResult] = []
    for _ in range(number):
        saturated = done[-1].saturated if done else None
        node = ClaimContext(1, MAX_CLAIM_BATCH, CatchupPacer(10), saturated=saturated)
        done.append(store.write_now(lambda tx, node=node: claim_due(tx, now, node)))  # type: ignore[misc]
    return done


@pytest.mark.parametrize("late", [timedelta(0), SECOND], ids=["at once", "a second later"])
def test_many_due_schedules_of_a_full_target_do_not_delay_another_target(tmp_path: Path, late: timedelta) -> None:
    """Once they stood behind it: 100,000 schedules of one target held up every other beat for six seconds."""
    store = opened(tmp_path, FULL, ScheduleBatch(name="tick", count=5, first_at=NOW + late, every=HOUR))

    first, second = turns(store, 2, NOW + late)

    store.close()
    assert (len(first.claims), len(second.claims)) == (0, 5)
    assert len(second.settled) == SATURATED_BATCH_SIZE


def test_every_schedule_of_a_saturated_target_is_queued_once(tmp_path: Path) -> None:
    store = opened(tmp_path, FULL)

    done = turns(store, 1 + (HERD - MAX_CLAIM_BATCH) // SATURATED_BATCH_SIZE + 1)

    store.close()
    reader = SqliteReader(store.path)
    waiting = reader.beats(Filter(outcome=BeatOutcome.PENDING, limit=2 * HERD))
    reader.close()
    assert len({beat.schedule for beat in waiting}) == len(waiting) == HERD
    assert done[-2].saturated is not None
    assert (done[-1].saturated, done[-1].wake_at) == (None, None)


def test_schedules_of_a_saturated_target_start_when_a_slot_is_free(tmp_path: Path) -> None:
    store = opened(tmp_path, FULL)
    (first,) = turns(store, 1)
    full = store.write_now(lambda tx: tx.due_schedules(NOW, 1)[0].target_id)

    store.write_now(lambda tx: tx.target_adjust_running({full: -3}))
    node = ClaimContext(1, MAX_CLAIM_BATCH, CatchupPacer(10), saturated=first.saturated)
    second = store.write_now(lambda tx: claim_due(tx, NOW, node))

    store.close()
    assert len(second.claims) == 3


def test_many_full_targets_with_one_schedule_each_are_not_saturated(tmp_path: Path) -> None:
    store = opened(tmp_path, ScheduleBatch(name="each", count=2 * MAX_CLAIM_BATCH, first_at=NOW, every=HOUR))

    (first,) = turns(store, 1)

    store.close()
    assert len(first.claims) == MAX_CLAIM_BATCH
    assert first.saturated is None


def test_a_time_that_a_completion_has_just_written_is_scanned(tmp_path: Path) -> None:
    """It writes the time at which it began, which may be earlier than what the cycle before has scanned."""
    store = opened(tmp_path, FULL)
    first, second = turns(store, 2, NOW + SECOND)
    insert_schedules(store, ScheduleBatch(name="tick", count=1, first_at=NOW + 0.8 * SECOND, every=HOUR), NOW - HOUR)

    node = ClaimContext(1, MAX_CLAIM_BATCH, CatchupPacer(10), saturated=second.saturated)
    third = store.write_now(lambda tx: claim_due(tx, NOW + SECOND, node))

    store.close()
    assert first.saturated is not None
    assert len(third.claims) == 1
