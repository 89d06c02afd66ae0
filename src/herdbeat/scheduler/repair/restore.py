"""Restore from a backup: what was open in the ledger is closed, and nothing that was due before now fires.

Between the backup and now the lost ledger may have run all of it. Nobody knows, so nothing is repeated.
"""

from collections import Counter
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, MissedReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.governor import decide
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.evaluate import Evaluation, build_beat, change_from_evaluation, governor_state, is_due
from herdbeat.scheduler.instants import due_since
from herdbeat.scheduler.pending import settle_unrun
from herdbeat.scheduler.quarantine import decide_or_quarantine, quarantine_evaluation
from herdbeat.store.base import CounterDelta, FinishedRun, ScheduleSnapshot, Transaction

RESTORE_BATCH_SIZE = 500

_IN_BACKUP = "it was not sent when the backup was made; whether it was sent later is not known"
_INTERRUPTED_BY_BACKUP = Outcome(status=RunStatus.INTERRUPTED, error="it was running when the backup was made")


def interrupt_open_runs(tx: Transaction, now: datetime) -> int:
    """End up to a batch of open runs as interrupted, and return how many there were."""
    runs = tx.unfinished_runs(RESTORE_BATCH_SIZE)
    complete_runs(tx, now, [FinishedRun(run_id, None, _INTERRUPTED_BY_BACKUP) for run_id in runs])
    return len(runs)


def end_deliveries(tx: Transaction, now: datetime) -> int:
    """End what was still to be sent, and return how much that was: the lost ledger may have sent it long ago."""
    return tx.outbox_end_open(now, _IN_BACKUP)


def settle_pending(tx: Transaction, now: datetime) -> int:
    """Settle up to a batch of pending beats as missed, or as ran if they had a run; return how many there were."""
    beats = tx.pending_beats(RESTORE_BATCH_SIZE)
    tx.change_beats([settle_unrun(beat, BeatOutcome.MISSED, MissedReason.RESTORED) for beat in beats], now)
    waiting_counts = Counter(beat.schedule_id for beat in beats if beat.source.is_clock and beat.attempt == 1)
    tx.schedule_adjust_counters(
        [CounterDelta(schedule_id, waiting=-number) for schedule_id, number in waiting_counts.items()], None
    )
    return len(beats)


def reschedule_all(tx: Transaction, now: datetime, after: int) -> int | None:
    """Reschedule a page of schedules: what was due is missed, and the next time lies ahead.

    Returns where the next page starts; None after the last one.
    """
    ids = tx.schedule_ids(after, RESTORE_BATCH_SIZE)
    snapshots = tx.schedules(ids).values()
    tx.end_one_shots([(snapshot.id, now) for snapshot in snapshots if snapshot.hints], now)
    evaluations = [_evaluate_restored(now, snapshot) for snapshot in snapshots if _is_decision_needed(now, snapshot)]
    beat_ids = iter(tx.add_beats([beat for evaluation in evaluations for beat in evaluation.beats]))
    tx.change_schedules(
        [change_from_evaluation(each, 0, next(beat_ids) if each.beats else None) for each in evaluations]
    )
    tx.schedule_settle_all(now)
    return ids[-1] if len(ids) == RESTORE_BATCH_SIZE else None


def _is_decision_needed(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True for what is due, and for what has lost its next time with the beats that were just settled."""
    if snapshot.quarantine is not None or not snapshot.enabled:
        return False
    return snapshot.next_run_at is None or is_due(now, snapshot)


def _evaluate_restored(now: datetime, snapshot: ScheduleSnapshot) -> Evaluation:
    return decide_or_quarantine(
        lambda: _miss_due(now, snapshot), lambda reason: quarantine_evaluation(now, snapshot, reason)
    )


def _miss_due(now: datetime, snapshot: ScheduleSnapshot) -> Evaluation:
    if snapshot.unreadable is not None:
        raise ValueError(snapshot.unreadable)
    beats = []
    if is_due(now, snapshot) and snapshot.next_due_at is not None:
        instants = due_since(snapshot.plan.trigger, snapshot.next_due_at, now)
        beats.append(build_beat(now, snapshot, instants, BeatOutcome.MISSED, MissedReason.RESTORED))
    snapshot = snapshot._replace(is_new=False)  # its first beat was active or due, and is over now
    hints = tuple(hint for hint in snapshot.hints if hint.at is None or hint.at > now)
    state = replace(governor_state(snapshot), anchor_at=now, hints=hints)
    return Evaluation(snapshot, beats=beats, decision=decide(now, state), anchor_at=now, settled_until=now)
