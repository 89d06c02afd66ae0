"""Stopping: runs that are going are told to end, beats that wait are called off. Neither is a failure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.events import BeatSettled, EventListener, null_listener
from herdbeat.scheduler.backfill import (
    MAX_BACKFILL_BEATS,
    BackfillResult,
    BackfillWindow,
    count_instants,
    enqueue_backfill,
    iterate_instants,
)
from herdbeat.scheduler.loop import Loop
from herdbeat.scheduler.manual import EnqueueResult, RetryResult, enqueue_manual, retry_run
from herdbeat.scheduler.pending import cancel_pending
from herdbeat.service.commands.dispatch import write_offline
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.service.serialize import JsonObject
from herdbeat.store.base import PendingBeat, Transaction
from herdbeat.store.location import StoreHandle, StoreLocation, open_reader
from herdbeat.timestamps import format_optional_timestamp, format_timestamp

# The instants of a past window, run now: how many there are, which, and their way into the ledger.


DEFAULT_MAX_BACKFILL_BEATS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSchedule:
    """What is to be filled in: which schedule, which window, at which pace, for whom."""

    schedule_id: int
    label: str
    window: BackfillWindow
    rate: float
    who: str
    reason: str = ""


def clip_to_past(window: BackfillWindow, now: datetime) -> BackfillWindow:
    """What of it has passed already. Raises UsageError if nothing has."""
    past = BackfillWindow(start=window.start, end=min(window.end, now))
    if past.start >= past.end:
        raise UsageError("The window is empty, or lies ahead.", hint="Let it begin before it ends, and before now.")
    return past


def plan_backfill(plan: ScheduleSpec, label: str, window: BackfillWindow, max_beats: int) -> tuple[datetime, ...]:
    """The instants of the window. Never a part of them: what is too many is refused, with the number.

    Raises Conflict or NotFound.
    """
    count = count_instants(plan, window)
    if count > max_beats:
        limit = (
            f"--max is {max_beats}"
            if max_beats < MAX_BACKFILL_BEATS
            else f"at most {MAX_BACKFILL_BEATS} are written at once"
        )
        raise Conflict(
            f"{count} instants of {label} lie in that window; {limit}. Nothing was written.",
            hint="Narrow the window."
            if count > MAX_BACKFILL_BEATS
            else f"Narrow the window, or allow them all: --max {count}",
        )
    if not count:
        raise NotFound(f"{label} has no instant in that window.", hint=f"See its times with: herdbeat next {label}")
    return tuple(iterate_instants(plan, window))


async def backfill_in_process(store: StoreHandle, now: datetime, command: BackfillSchedule) -> JsonObject:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    return await store.write(lambda tx: execute_backfill(tx, now, command))


def backfill_offline(path: StoreLocation, now: datetime, command: BackfillSchedule) -> JsonObject:
    """While nothing runs: started by the next `up`. Raises Conflict if something does."""
    return write_offline(path, lambda tx: execute_backfill(tx, now, command))


def execute_backfill(tx: Transaction, now: datetime, command: BackfillSchedule) -> JsonObject:
    plan = tx.schedules([command.schedule_id])[command.schedule_id].plan
    instants = plan_backfill(plan, command.label, command.window, MAX_BACKFILL_BEATS)
    result = enqueue_backfill(tx, now, command.schedule_id, instants, origin=command.who, rate=command.rate)
    answer = serialize_backfill(command.label, result)
    after = {key: answer[key] for key in ("backfill", "count", "first", "last")} | {"reason": command.reason}
    tx.add_changes([Change(at=now, who=command.who, what=ChangeKind.BACKFILL, subject=command.label, after=after)])
    return answer


def serialize_backfill(label: str, result: BackfillResult) -> JsonObject:
    return {
        "schedule": label,
        "backfill": result.number,
        "count": len(result.instants),
        "first": format_timestamp(result.instants[0]),
        "last": format_timestamp(result.instants[-1]),
        "last_start_at": format_timestamp(result.last_start_at),
    }


class CancelledBeats(NamedTuple):
    """A schedule, and which of its beats waited and do so no more."""

    label: str
    beats: Sequence[PendingBeat]


async def cancel_in_process(
    store: StoreHandle,
    loop: Loop,
    now: datetime,
    schedule_ids: Sequence[int],
    *,
    who: str,
    reason: str,
    force: bool,
    publish: EventListener = null_listener,
) -> list[JsonObject]:
    """In the process that runs the fleet: what waits is settled, then what runs is told to end.

    In this order, or a beat that waits for the place of a run would take it before it could be called off. `tell` hears
    of what was called off; that a run has ended is told by its finish.
    """
    cancelled = await store.write(lambda tx: _cancel_pending_beats(tx, now, schedule_ids))
    local_runs = {
        number: loop.cancel_schedule_runs(number, format_cancel_reason(who, reason), force=force)
        for number in schedule_ids
    }
    stopped = await store.write(
        lambda tx: _request_remote_cancel(
            tx, now, cancelled, local_runs, loop.node_id, who=who, reason=reason, force=force
        )
    )
    for each in cancelled.values():
        _publish_cancelled(publish, now, each)
    return [
        _serialize_cancel(number, each.label, len(each.beats), stopped[number]) for number, each in cancelled.items()
    ]


async def cancel_run_in_process(
    store: StoreHandle, loop: Loop, now: datetime, run_id: int, label: str, *, who: str, reason: str, force: bool
) -> JsonObject:
    """One run alone; what waits of its schedule stays."""
    is_local = loop.cancel(run_id, format_cancel_reason(who, reason), force=force)
    return await store.write(
        lambda tx: _cancel_run(tx, now, run_id, label, is_local=is_local, who=who, reason=reason, force=force)
    )


def cancel_offline(
    path: StoreLocation, now: datetime, schedule_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[JsonObject]:
    """Without a node here. In a file there are only beats that wait then; Conflict is raised if something runs."""

    def work(tx: Transaction) -> list[JsonObject]:
        cancelled = _cancel_pending_beats(tx, now, schedule_ids)
        stopped = _request_remote_cancel(tx, now, cancelled, {}, 0, who=who, reason=reason, force=force)
        return [
            _serialize_cancel(number, each.label, len(each.beats), stopped[number])
            for number, each in cancelled.items()
        ]

    return write_offline(path, work)


def cancel_run_offline(
    path: StoreLocation, now: datetime, run_id: int, label: str, *, who: str, reason: str, force: bool
) -> JsonObject:
    """The same for one run. Of a file nobody runs, it was cut off, and the next start says so."""
    return write_offline(
        path, lambda tx: _cancel_run(tx, now, run_id, label, is_local=False, who=who, reason=reason, force=force)
    )


def _request_remote_cancel(
    tx: Transaction,
    now: datetime,
    cancelled: dict[int, CancelledBeats],
    local_runs: dict[int, list[int]],
    node_id: int,
    *,
    who: str,
    reason: str,
    force: bool,
) -> dict[int, list[int]]:
    """Leave word for the nodes that have other runs of these schedules, and write down what was done. All that end."""
    stopped = {number: list(local_runs.get(number, [])) for number in cancelled}
    for schedule_id, run_id in tx.run_request_stop(
        format_cancel_reason(who, reason), schedules=list(cancelled), node_id=node_id, force=force
    ):
        stopped[schedule_id].append(run_id)
    _record_cancel(tx, now, cancelled, stopped, who=who, reason=reason)
    return stopped


def _cancel_run(
    tx: Transaction, now: datetime, run_id: int, label: str, *, is_local: bool, who: str, reason: str, force: bool
) -> JsonObject:
    requested = [] if is_local else tx.run_request_stop(format_cancel_reason(who, reason), runs=[run_id], force=force)
    stopped = [run_id] if is_local or requested else []
    if stopped:
        tx.add_changes([_build_cancel_change(now, label, 0, stopped, who=who, reason=reason)])
    return _serialize_cancel(0, label, 0, stopped)


def format_cancel_reason(who: str, reason: str) -> str:
    """What a cancelled run says of its end."""
    return f"cancelled by {who}: {reason}" if reason else f"cancelled by {who}"


def _cancel_pending_beats(tx: Transaction, now: datetime, schedule_ids: Sequence[int]) -> dict[int, CancelledBeats]:
    beats = cancel_pending(tx, now, schedule_ids)
    return {
        number: CancelledBeats(each.label, beats.get(number, ()))
        for number, each in tx.schedule_get_enabled(schedule_ids).items()
    }


def _publish_cancelled(publish: EventListener, now: datetime, each: CancelledBeats) -> None:
    """One event for all of a schedule. A second attempt that is called off leaves a beat that ran, so it is not one."""
    due_times = [beat.due_at for beat in each.beats if beat.attempt == 1]
    if due_times:
        outcome, reason = BeatOutcome.SKIPPED, SkipReason.BY_REQUEST
        publish(BeatSettled(now, each.label, outcome, reason, min(due_times), max(due_times), len(due_times)))


def _record_cancel(
    tx: Transaction,
    now: datetime,
    cancelled: dict[int, CancelledBeats],
    stopped: dict[int, list[int]],
    *,
    who: str,
    reason: str,
) -> None:
    """What found nothing to stop leaves no row."""
    changes = [
        _build_cancel_change(now, each.label, len(each.beats), stopped.get(number, []), who=who, reason=reason)
        for number, each in cancelled.items()
    ]
    tx.add_changes([each for each in changes if each.after and (each.after["runs"] or each.after["called_off"])])


def _build_cancel_change(now: datetime, label: str, count: int, runs: list[int], *, who: str, reason: str) -> Change:
    after = {"runs": [format_short_id(run) for run in runs], "called_off": count, "reason": reason}
    return Change(at=now, who=who, what=ChangeKind.CANCEL, subject=label, after=after)


def _serialize_cancel(schedule_id: int, label: str, count: int, runs: list[int]) -> JsonObject:
    return {"schedule": label, "id": schedule_id, "runs": [format_short_id(run) for run in runs], "called_off": count}


# Running a schedule by hand: into the ledger of the fleet that runs, or of one that will.


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


# Running a run again: into the ledger of the fleet that runs, or of one that will.


async def retry_in_process(
    store: StoreHandle, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[JsonObject]:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    return await store.write(lambda tx: execute_retries(tx, now, run_ids, who=who, reason=reason, force=force))


def retry_offline(
    path: StoreLocation, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[JsonObject]:
    """While nothing runs: started by the next `up`. Raises Conflict if something does."""
    return write_offline(path, lambda tx: execute_retries(tx, now, run_ids, who=who, reason=reason, force=force))


def execute_retries(
    tx: Transaction, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[JsonObject]:
    """One answer for each run that is there, refusals included."""
    known = [tx.last_attempt(run_id) for run_id in run_ids]
    tx.schedules({each.schedule_id for each in known if each is not None})  # locked at once, in the order of all
    results = [(run_id, retry_run(tx, now, run_id, by=who, force=force)) for run_id in run_ids]
    found = [(run_id, each) for run_id, each in results if each is not None]
    labels = {
        number: each.label
        for number, each in tx.schedule_get_enabled([each.last.schedule_id for _, each in found]).items()
    }
    answers = [_serialize_retry(run_id, each, labels.get(each.last.schedule_id, "")) for run_id, each in found]
    tx.add_changes([_build_retry_change(now, who, reason, answer) for answer in answers if answer["success"]])
    return answers


def _build_retry_change(now: datetime, who: str, reason: str, answer: JsonObject) -> Change:
    after = {"run": answer["retries"], "beat": answer["beat"], "attempt": answer["attempt"], "reason": reason}
    return Change(at=now, who=who, what=ChangeKind.RETRY, subject=str(answer["schedule"]), after=after)


def _serialize_retry(run_id: int, retried: RetryResult, label: str) -> JsonObject:
    last = retried.last
    return {
        "schedule": label,
        "asked": format_short_id(run_id),
        "retries": format_short_id(last.run_id),
        "beat": format_short_id(last.beat_id),
        "success": retried.attempt is not None,
        "attempt": retried.attempt,
        "refused": retried.obstacle,
    }
