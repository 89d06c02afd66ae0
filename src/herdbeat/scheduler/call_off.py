"""Beats that wait are called off by somebody: settled as `skipped: by_request`, and the schedule goes on from here.

A run that is going is not touched: stopping it is the loop's business, and its finish settles its beat.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.governor import decide
from herdbeat.scheduler.judge import governor_state, is_due
from herdbeat.scheduler.verdict import Evaluation, to_row
from herdbeat.store.base import ChangedBeat, ChangedSchedule, PendingBeat, ScheduleSnapshot, Transaction


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
