"""A waiting beat that is looked at again: what may keep it out, and who goes on when it is over without a run. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.governor import decide
from herdbeat.scheduler.admission import AdmissionRequest, Rejection
from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.scheduler.evaluate import governor_state, is_due
from herdbeat.scheduler.evaluation import Evaluation, to_row
from herdbeat.scheduler.quarantine import format_reason
from herdbeat.store.base import ChangedBeat, ChangedSchedule, PendingBeat, ScheduleSnapshot, Transaction

# Beats that wait are called off by somebody: settled as `skipped: by_request`, and the schedule goes on from here.
#
# A run that is going is not touched: stopping it is the loop's business, and its finish settles its beat.


def cancel_pending(tx: Transaction, now: datetime, schedule_ids: Iterable[int]) -> dict[int, list[PendingBeat]]:
    """Settle everything that waits of these schedules. Which beats that were, of those that had any."""
    requested_ids = list(schedule_ids)
    # Before their beats: one that was read without its lock may have been started by another node meanwhile.
    snapshots = tx.schedules(requested_ids)
    waiting: defaultdict[int, list[PendingBeat]] = defaultdict(list)
    for beat in tx.beat_list_pending_by_schedule(requested_ids):
        waiting[beat.schedule_id].append(beat)
    tx.change_beats([settle_cancelled(beat) for beats in waiting.values() for beat in beats], now)
    tx.change_schedules([_reschedule_after_cancel(now, snapshots[number], beats) for number, beats in waiting.items()])
    return dict(waiting)


def settle_cancelled(beat: PendingBeat) -> ChangedBeat:
    """A beat that has a run already is `ran`, also when its next attempt is called off."""
    if beat.attempt > 1:
        return ChangedBeat(beat.id, BeatOutcome.RAN, "", None, beat.attempt - 1, settled=True)
    return ChangedBeat(beat.id, BeatOutcome.SKIPPED, SkipReason.BY_REQUEST, None, beat.attempt, settled=True)


def _reschedule_after_cancel(now: datetime, snapshot: ScheduleSnapshot, beats: list[PendingBeat]) -> ChangedSchedule:
    """A settled clock beat moves the anchor, and a pace that waited for it is decided again."""
    clock_beats = [beat for beat in beats if beat.source.is_clock and beat.retried_by is None]
    waiting_count = sum(beat.attempt == 1 for beat in clock_beats)
    remaining = snapshot._replace(waiting=snapshot.waiting - waiting_count)
    evaluation = Evaluation(remaining, anchor_at=now if clock_beats else snapshot.anchor_at)
    if _is_next_run_fixed(now, remaining) or not clock_beats:
        return _keep_next_run(evaluation)
    evaluation.decision = decide(now, governor_state(remaining._replace(anchor_at=now, is_new=False)))
    return to_row(evaluation, 0, None)._replace(is_new=False)


def _is_next_run_fixed(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """Due and not yet claimed, at another run whose finish decides, or in no state to be decided."""
    is_running_interval = snapshot.running > 0 and snapshot.plan.trigger.interval is not None
    is_undecidable = snapshot.unreadable is not None or snapshot.quarantine is not None
    return is_running_interval or is_undecidable or is_due(now, snapshot)


def _keep_next_run(evaluation: Evaluation) -> ChangedSchedule:
    snapshot = evaluation.snapshot
    return to_row(evaluation, 0, None)._replace(
        next_run_at=snapshot.next_run_at,
        next_due_at=snapshot.next_due_at,
        wake_at=snapshot.wake_at,
        quarantine=snapshot.quarantine,
    )


def admission_request(
    now: datetime, beat: PendingBeat, snapshot: ScheduleSnapshot, capacity: CapacitySnapshot, *, is_unblocked: bool
) -> AdmissionRequest:
    """A second attempt has passed the hours and bounds with the first; what it costs is asked again."""
    source = beat.source
    if beat.attempt > 1:
        source = Source.MANUAL if beat.retried_by else Source.RETRY
    return AdmissionRequest(
        now=now,
        due_at=beat.due_at,
        run_at=beat.due_at,
        source=source,
        snapshot=snapshot,
        started_count=0,
        is_unblocked=is_unblocked,
        capacity=capacity,
    )


def reject_pending(beat: PendingBeat, rejection: Rejection) -> tuple[BeatOutcome, str, datetime | None]:
    if rejection.until is not None:
        return BeatOutcome.PENDING, rejection.reason, rejection.until
    if beat.attempt > 1:
        return BeatOutcome.RAN, "", None  # it has a run already: only its next attempt is called off
    return BeatOutcome.SKIPPED, rejection.reason, None


def reschedule_after_pending(
    now: datetime,
    snapshots: dict[int, ScheduleSnapshot],
    settled: Iterable[ChangedBeat],
    waiting: Iterable[PendingBeat],
) -> list[ChangedSchedule]:
    """Intervals whose beat is over without a run: no finish will decide for them, and they would stand still for ever.

    What is decided is put into `standings`, too.
    """
    over = {change.id for change in settled}
    ids = {beat.schedule_id for beat in waiting if beat.id in over and beat.source.is_clock} if over else set()
    changes = []
    for snapshot in [snapshots[number] for number in ids]:
        evaluation = Evaluation(snapshot, anchor_at=now, settled_until=now)
        if not evaluation.is_rescheduled_on_completion or _is_reschedule_deferred(snapshot):
            continue
        try:
            evaluation.decision = decide(now, replace(governor_state(snapshot), anchor_at=now, is_new=False))
        except Exception as error:  # noqa: BLE001 - a schedule that cannot be decided is quarantined, here as anywhere
            evaluation.quarantine = format_reason(error)
        change = to_row(evaluation, 0, None)
        changes.append(change)
        snapshots[snapshot.id] = _apply_change(snapshot, change)
    return changes


def _apply_change(snapshot: ScheduleSnapshot, change: ChangedSchedule) -> ScheduleSnapshot:
    return snapshot._replace(
        next_run_at=change.next_run_at,
        next_due_at=change.next_due_at,
        next_source=change.next_source,
        wake_at=change.wake_at,
        anchor_at=change.anchor_at,
        settled_until=change.settled_until,
        quarantine=change.quarantine,
    )


def _is_reschedule_deferred(snapshot: ScheduleSnapshot) -> bool:
    """Something else will decide: a run, another beat that waits, a time that stands; or nothing may."""
    is_resting = snapshot.quarantine is not None or snapshot.unreadable is not None
    return bool(is_resting or snapshot.running or snapshot.waiting or snapshot.next_run_at is not None)
