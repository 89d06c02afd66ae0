"""A node without a free slot: what it cannot start stays due, and nothing is forgotten."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.load.bulk_insert import ScheduleBatch, insert_schedules

from herdbeat.domain.beat import BeatOutcome
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, ClaimResult, claim_due
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.sqlite.store import SqliteStore

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)


def opened(folder: Path, due: ScheduleBatch) -> SqliteStore:
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    insert_schedules(store, due, NOW)
    return store


def claimed(store: SqliteStore, room: int) -> ClaimResult:
    return store.write_now(lambda tx: claim_due(tx, NOW, ClaimContext(1, room, CatchupPacer(10))))


def test_what_a_full_node_cannot_start_stays_due_until_it_can(tmp_path: Path) -> None:
    store = opened(tmp_path, ScheduleBatch(name="due", count=8, first_at=NOW, every=timedelta(minutes=5)))

    turns = [claimed(store, room=3) for _ in range(3)]

    store.close()
    assert [len(turn.claims) for turn in turns] == [3, 3, 2]
    assert [turn.wake_at for turn in turns] == [NOW, NOW, None]
    assert not any(turn.settled for turn in turns)  # no beat was queued: no completion would have woken it


def test_beats_of_a_full_target_are_queued_even_if_the_node_has_one_slot(tmp_path: Path) -> None:
    store = opened(
        tmp_path, ScheduleBatch(name="full", count=150, first_at=NOW, every=timedelta(hours=1), shared_capacity=0)
    )

    turns = [claimed(store, room=1) for _ in range(2)]

    store.close()
    reader = SqliteReader(store.path)
    waiting = reader.beats(Filter(outcome=BeatOutcome.PENDING, limit=1_000))
    reader.close()
    assert len(waiting) == sum(len(turn.settled) for turn in turns) == 150
