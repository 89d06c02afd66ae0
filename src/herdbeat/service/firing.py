"""Running a schedule by hand: into the ledger of the fleet that runs, or of one that will."""

from datetime import datetime
from pathlib import Path
from uuid import uuid4

from herdbeat.domain.ids import short_id
from herdbeat.scheduler.fire import Fired, fire
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.service.questions import find_schedule
from herdbeat.store.lock import StateLock
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite import SqliteStore


async def fire_here(store: SqliteStore, now: datetime, selector: str, *, origin: str, queue: bool) -> Json:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    schedule_id, label = _find(store.path, selector)
    event_id = uuid4().hex
    fired = await store.write(lambda tx: fire(tx, now, schedule_id, origin=origin, event_id=event_id, queue=queue))
    return fired_object(fired, label)


def fire_for_later(path: Path, now: datetime, selector: str, *, origin: str) -> Json:
    """While nothing runs: written under the state lock, started by the next `up`. Raises Conflict if something does."""
    schedule_id, label = _find(path, selector)
    with StateLock(path.parent):
        store = SqliteStore(path)
        store.open()
        try:
            # Room counts only while somebody runs: what a killed node has left open is swept at the next start.
            fired = store.write_now(
                lambda tx: fire(tx, now, schedule_id, origin=origin, event_id=uuid4().hex, queue=True)
            )
        finally:
            store.close()
    return fired_object(fired, label)


def fired_object(fired: Fired, label: str) -> Json:
    return {
        "schedule": label,
        "success": fired.beat_id is not None,
        "skipped": fired.beat_id is None,
        "skip_reason": fired.skip_reason,
        "waits_for": fired.waits_for,
        "beat": None if fired.beat_id is None else short_id(fired.beat_id),
        "running": fired.running,
        "max_concurrent": fired.room,
        "next_run_at": moment_or_null(fired.next_run_at),
    }


def _find(path: Path, selector: str) -> tuple[int, str]:
    reader = SqliteReader(path)
    try:
        record = find_schedule(reader, selector)
    finally:
        reader.close()
    return record.id, record.label
