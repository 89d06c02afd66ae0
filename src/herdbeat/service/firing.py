"""Running a schedule by hand: into the ledger of the fleet that runs, or of one that will."""

from datetime import datetime
from uuid import uuid4

from herdbeat.domain.ids import format_short_id
from herdbeat.scheduler.fire import EnqueueResult, enqueue_manual
from herdbeat.service.objects import JsonObject, format_optional_timestamp
from herdbeat.service.offline import write_offline
from herdbeat.service.questions import find_schedule
from herdbeat.store.opening import StoreHandle, open_reader
from herdbeat.store.places import StoreLocation


async def trigger_in_process(
    store: StoreHandle, now: datetime, selector: str, *, origin: str, queue: bool
) -> JsonObject:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    schedule_id, label = _find_schedule_id(store.location, selector)
    event_id = uuid4().hex
    result = await store.write(
        lambda tx: enqueue_manual(tx, now, schedule_id, origin=origin, event_id=event_id, queue=queue)
    )
    return serialize_trigger_result(result, label)


def trigger_offline(
    path: StoreLocation, now: datetime, selector: str, *, origin: str, queue: bool = True
) -> JsonObject:
    """Without a node here: for nodes elsewhere, or for the next `up`. Raises Conflict if one has the file.

    It queues unless somebody runs the fleet elsewhere: what a killed node has left open is swept at the next start, so
    room counts for nothing until then.
    """
    schedule_id, label = _find_schedule_id(path, selector)
    event_id = uuid4().hex
    result = write_offline(
        path, lambda tx: enqueue_manual(tx, now, schedule_id, origin=origin, event_id=event_id, queue=queue)
    )
    return serialize_trigger_result(result, label)


def serialize_trigger_result(result: EnqueueResult, label: str) -> JsonObject:
    return {
        "schedule": label,
        "success": result.beat_id is not None,
        "skipped": result.beat_id is None,
        "skip_reason": result.skip_reason,
        "waits_for": result.waits_for,
        "beat": None if result.beat_id is None else format_short_id(result.beat_id),
        "running": result.running,
        "max_concurrent": result.room,
        "next_run_at": format_optional_timestamp(result.next_run_at),
    }


def _find_schedule_id(path: StoreLocation, selector: str) -> tuple[int, str]:
    reader = open_reader(path)
    try:
        record = find_schedule(reader, selector)
    finally:
        reader.close()
    return record.id, record.label
