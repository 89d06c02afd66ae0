"""A ledger out of a backup: what was open in it is closed, and nothing that was due before now fires.

Between the backup and now the lost ledger may have run all of it. Nobody knows, so nothing is repeated.
"""

from collections import Counter
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, MissedReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.governor import decide
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.evaluate import governor_state, is_due
from herdbeat.scheduler.evaluation import Evaluation, to_row
from herdbeat.scheduler.instants import due_since
from herdbeat.scheduler.quarantine import quarantine_evaluation
from herdbeat.store.base import (
    ChangedBeat,
    CounterDelta,
    FinishedRun,
    NewBeat,
    PendingBeat,
    ScheduleSnapshot,
    Transaction,
)

RESTORE_BATCH_SIZE = 500

_INTERRUPTED_BY_BACKUP = Outcome(status=RunStatus.INTERRUPTED, error="it was running when the backup was made")


def interrupt_open_runs(tx: Transaction, now: datetime) -> int:
    """Up to a batch of open runs ends as interrupted; returns how many there were."""
    runs = tx.unfinished_runs(RESTORE_BATCH_SIZE)
    complete_runs(tx, now, [FinishedRun(run_id, None, _INTERRUPTED_BY_BACKUP) for run_id in runs])
    return len(runs)


def settle_pending(tx: Transaction, now: datetime) -> int:
    """Up to a batch of waiting beats is missed, or ran if it had a run; returns how many there were."""
    beats = tx.pending_beats(RESTORE_BATCH_SIZE)
    tx.change_beats([_settle_beat(beat) for beat in beats], now)
    waiting_counts = Counter(beat.schedule_id for beat in beats if beat.source.is_clock and beat.attempt == 1)
    tx.schedule_adjust_counters(
        [CounterDelta(schedule_id, waiting=-number) for schedule_id, number in waiting_counts.items()], None
    )
    return len(beats)


def reschedule_all(tx: Transaction, now: datetime, after: int) -> int | None:
    """A page of schedules: what was due is missed, and the next time lies ahead. None after the last page."""
    ids = tx.schedule_ids(after, RESTORE_BATCH_SIZE)
    snapshots = tx.schedules(ids).values()
    tx.end_one_shots([(each.id, now) for each in snapshots if each.hints], now)
    evaluations = [_decide_or_quarantine(now, each) for each in snapshots if _is_decision_needed(now, each)]
    beat_ids = iter(tx.add_beats([beat for evaluation in evaluations for beat in evaluation.beats]))
    tails = [next(beat_ids) if evaluation.beats else None for evaluation in evaluations]
    tx.change_schedules([to_row(evaluation, 0, tail) for evaluation, tail in zip(evaluations, tails, strict=True)])
    tx.schedule_settle_all(now)
    return ids[-1] if len(ids) == RESTORE_BATCH_SIZE else None


def _settle_beat(beat: PendingBeat) -> ChangedBeat:
    outcome, reason = (BeatOutcome.RAN, "") if beat.attempt > 1 else (BeatOutcome.MISSED, MissedReason.RESTORED)
    return ChangedBeat(beat.id, outcome, reason, None, beat.attempt, settled=True)


def _is_decision_needed(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """What is due, and what has lost its time with the beats that were just closed."""
    if snapshot.quarantine is not None or not snapshot.enabled:
        return False
    return snapshot.next_run_at is None or is_due(now, snapshot)


def _decide_or_quarantine(now: datetime, snapshot: ScheduleSnapshot) -> Evaluation:
    if snapshot.unreadable is None:
        try:
            return _evaluate_restored(now, snapshot)
        except Exception as error:  # noqa: BLE001 - a schedule that cannot be decided is quarantined, here as anywhere
            return quarantine_evaluation(now, snapshot, error)
    return quarantine_evaluation(now, snapshot, ValueError(snapshot.unreadable))


def _evaluate_restored(now: datetime, snapshot: ScheduleSnapshot) -> Evaluation:
    beats = [_build_missed_beat(now, snapshot)] if is_due(now, snapshot) else []
    snapshot = snapshot._replace(is_new=False)  # it was at its first beat, or due: that one is over now
    hints = tuple(hint for hint in snapshot.hints if hint.at is None or hint.at > now)
    state = replace(governor_state(snapshot), anchor_at=now, hints=hints)
    return Evaluation(snapshot, beats=beats, decision=decide(now, state), anchor_at=now, settled_until=now)


def _build_missed_beat(now: datetime, snapshot: ScheduleSnapshot) -> NewBeat:
    trigger, due_at = snapshot.plan.trigger, snapshot.next_due_at
    assert due_at is not None
    instants = due_since(trigger, due_at, now)
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=trigger.dedup_id(instants.first, snapshot.label),
        due_at=instants.first,
        last_due_at=instants.last,
        number=instants.count,
        outcome=BeatOutcome.MISSED,
        reason=MissedReason.RESTORED,
        source=snapshot.next_source or trigger.kind.source,
        origin=snapshot.next_origin,
        created_at=now,
        settled_at=now,
    )
