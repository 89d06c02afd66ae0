"""Stopping: runs that are going are told to end, beats that wait are called off. Neither is a failure."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.change import Change, What
from herdbeat.domain.ids import short_id
from herdbeat.events import BeatSettled, Listener, nobody
from herdbeat.scheduler.call_off import call_off
from herdbeat.scheduler.loop import Loop
from herdbeat.service.objects import Json
from herdbeat.service.offline import write_offline
from herdbeat.store.base import Transaction, WaitingBeat
from herdbeat.store.opening import OpenStore
from herdbeat.store.places import LedgerPlace


class CalledOff(NamedTuple):
    """A schedule, and which of its beats waited and do so no more."""

    label: str
    beats: Sequence[WaitingBeat]


async def cancel_here(
    store: OpenStore,
    loop: Loop,
    now: datetime,
    schedule_ids: Sequence[int],
    *,
    who: str,
    reason: str,
    force: bool,
    tell: Listener = nobody,
) -> list[Json]:
    """In the process that runs the fleet: what waits is settled, then what runs is told to end.

    In this order, or a beat that waits for the place of a run would take it before it could be called off. `tell` hears
    of what was called off; that a run has ended is told by its finish.
    """
    settled = await store.write(lambda tx: _called_off(tx, now, schedule_ids))
    here = {number: loop.cancel_runs(number, why(who, reason), force=force) for number in schedule_ids}
    stopped = await store.write(
        lambda tx: _stop_elsewhere(tx, now, settled, here, loop.node_id, who=who, reason=reason, force=force)
    )
    for each in settled.values():
        _tell(tell, now, each)
    return [_object(number, each.label, len(each.beats), stopped[number]) for number, each in settled.items()]


async def cancel_run_here(
    store: OpenStore, loop: Loop, now: datetime, run_id: int, label: str, *, who: str, reason: str, force: bool
) -> Json:
    """One run alone; what waits of its schedule stays."""
    is_here = loop.cancel(run_id, why(who, reason), force=force)
    return await store.write(
        lambda tx: _stop_run(tx, now, run_id, label, is_here=is_here, who=who, reason=reason, force=force)
    )


def cancel_from_outside(
    path: LedgerPlace, now: datetime, schedule_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[Json]:
    """Without a node here. In a file there are only beats that wait then; Conflict is raised if something runs."""

    def work(tx: Transaction) -> list[Json]:
        settled = _called_off(tx, now, schedule_ids)
        stopped = _stop_elsewhere(tx, now, settled, {}, 0, who=who, reason=reason, force=force)
        return [_object(number, each.label, len(each.beats), stopped[number]) for number, each in settled.items()]

    return write_offline(path, work)


def cancel_run_from_outside(
    path: LedgerPlace, now: datetime, run_id: int, label: str, *, who: str, reason: str, force: bool
) -> Json:
    """The same for one run. Of a file nobody runs, it was cut off, and the next start says so."""
    return write_offline(
        path, lambda tx: _stop_run(tx, now, run_id, label, is_here=False, who=who, reason=reason, force=force)
    )


def _stop_elsewhere(
    tx: Transaction,
    now: datetime,
    settled: dict[int, CalledOff],
    here: dict[int, list[int]],
    node_id: int,
    *,
    who: str,
    reason: str,
    force: bool,
) -> dict[int, list[int]]:
    """Leave word for the nodes that have other runs of these schedules, and write down what was done. All that end."""
    stopped = {number: list(here.get(number, [])) for number in settled}
    for schedule_id, run_id in tx.ask_to_stop(why(who, reason), schedules=list(settled), node_id=node_id, force=force):
        stopped[schedule_id].append(run_id)
    _record(tx, now, settled, stopped, who=who, reason=reason)
    return stopped


def _stop_run(
    tx: Transaction, now: datetime, run_id: int, label: str, *, is_here: bool, who: str, reason: str, force: bool
) -> Json:
    asked = [] if is_here else tx.ask_to_stop(why(who, reason), runs=[run_id], force=force)
    stopped = [run_id] if is_here or asked else []
    if stopped:
        tx.add_changes([_change(now, label, 0, stopped, who=who, reason=reason)])
    return _object(0, label, 0, stopped)


def why(who: str, reason: str) -> str:
    """What a cancelled run says of its end."""
    return f"cancelled by {who}: {reason}" if reason else f"cancelled by {who}"


def _called_off(tx: Transaction, now: datetime, schedule_ids: Sequence[int]) -> dict[int, CalledOff]:
    beats = call_off(tx, now, schedule_ids)
    return {number: CalledOff(each.label, beats.get(number, ())) for number, each in tx.switches(schedule_ids).items()}


def _tell(tell: Listener, now: datetime, each: CalledOff) -> None:
    """One event for all of a schedule. A second attempt that is called off leaves a beat that ran, so it is not one."""
    dues = [beat.due_at for beat in each.beats if beat.attempt == 1]
    if dues:
        outcome, reason = BeatOutcome.SKIPPED, SkipReason.BY_REQUEST
        tell(BeatSettled(now, each.label, outcome, reason, min(dues), max(dues), len(dues)))


def _record(
    tx: Transaction,
    now: datetime,
    settled: dict[int, CalledOff],
    stopped: dict[int, list[int]],
    *,
    who: str,
    reason: str,
) -> None:
    """What found nothing to stop leaves no row."""
    changes = [
        _change(now, each.label, len(each.beats), stopped.get(number, []), who=who, reason=reason)
        for number, each in settled.items()
    ]
    tx.add_changes([each for each in changes if each.after and (each.after["runs"] or each.after["called_off"])])


def _change(now: datetime, label: str, count: int, runs: list[int], *, who: str, reason: str) -> Change:
    after = {"runs": [short_id(run) for run in runs], "called_off": count, "reason": reason}
    return Change(at=now, who=who, what=What.CANCEL, subject=label, after=after)


def _object(schedule_id: int, label: str, count: int, runs: list[int]) -> Json:
    return {"schedule": label, "id": schedule_id, "runs": [short_id(run) for run in runs], "called_off": count}
