"""Stopping: runs that are going are told to end, beats that wait are called off. Neither is a failure."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.events import BeatSettled, EventListener, null_listener
from herdbeat.scheduler.call_off import cancel_pending
from herdbeat.scheduler.loop import Loop
from herdbeat.service.objects import JsonObject
from herdbeat.service.offline import write_offline
from herdbeat.store.base import PendingBeat, Transaction
from herdbeat.store.opening import StoreHandle
from herdbeat.store.places import StoreLocation


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
