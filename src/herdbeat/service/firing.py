"""Running a schedule by hand: into the ledger of the fleet that runs, or of one that will."""

from datetime import datetime
from uuid import uuid4

from herdbeat.domain.ids import short_id
from herdbeat.scheduler.fire import Fired, fire
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.service.offline import write_offline
from herdbeat.service.questions import find_schedule
from herdbeat.store.opening import OpenStore, reader_at
from herdbeat.store.places import LedgerPlace


async def fire_here(store: OpenStore, now: datetime, selector: str, *, origin: str, queue: bool) -> Json:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    schedule_id, label = _find(store.place, selector)
    event_id = uuid4().hex
    fired = await store.write(lambda tx: fire(tx, now, schedule_id, origin=origin, event_id=event_id, queue=queue))
    return fired_object(fired, label)


def fire_for_later(path: LedgerPlace, now: datetime, selector: str, *, origin: str, queue: bool = True) -> Json:
    """Without a node here: for nodes elsewhere, or for the next `up`. Raises Conflict if one has the file.

    It queues unless somebody runs the fleet elsewhere: what a killed node has left open is swept at the next start, so
    room counts for nothing until then.
    """
    schedule_id, label = _find(path, selector)
    event_id = uuid4().hex
    fired = write_offline(path, lambda tx: fire(tx, now, schedule_id, origin=origin, event_id=event_id, queue=queue))
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


def _find(path: LedgerPlace, selector: str) -> tuple[int, str]:
    reader = reader_at(path)
    try:
        record = find_schedule(reader, selector)
    finally:
        reader.close()
    return record.id, record.label
