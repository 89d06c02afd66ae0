"""A waiting beat that is looked at again: what may keep it out, and who goes on when it is over without a run. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.governor import decide
from herdbeat.scheduler.gates import AdmissionRequest, Rejection
from herdbeat.scheduler.judge import governor_state
from herdbeat.scheduler.quarantine import format_reason
from herdbeat.scheduler.room import CapacitySnapshot
from herdbeat.scheduler.verdict import Evaluation, to_row
from herdbeat.store.base import ChangedBeat, ChangedSchedule, PendingBeat, ScheduleSnapshot


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
