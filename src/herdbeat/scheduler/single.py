"""One schedule, once, without a loop: for who wants a single run and nothing else that may be due."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.claim import Claim
from herdbeat.scheduler.budget import load_budgets
from herdbeat.scheduler.fire import enqueue_manual
from herdbeat.scheduler.judge import evaluate, is_due
from herdbeat.scheduler.room import CapacitySnapshot, CatchupPacer
from herdbeat.scheduler.turn import ClaimContext, ClaimResult, claim_waiting, write_evaluations
from herdbeat.scheduler.verdict import ClaimCycle
from herdbeat.store.base import ScheduleSnapshot, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleClaim:
    """What was claimed; or nothing, and why."""

    claims: tuple[Claim, ...] = ()
    skip_reason: SkipReason | None = None


def claim_single(
    tx: Transaction, now: datetime, node_id: int, schedule_id: int, *, origin: str, event_id: str
) -> SingleClaim:
    """Claim its beat if it is due, so that its next run is decided by this one; else a beat by hand beside it."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    capacity = CapacitySnapshot.from_targets(100, tx.target_get_capacity([snapshot.target_id]))
    capacity.budgets_by_schedule = load_budgets(tx, now, [snapshot])
    context, result = ClaimContext(node_id, 100, CatchupPacer(1)), ClaimResult()
    if snapshot.quarantine is None and snapshot.unreadable is None and is_due(now, snapshot):
        cycle = ClaimCycle(now, capacity, context.pacer, tuple(tx.gaps(snapshot.next_run_at or now)))
        write_evaluations(tx, cycle, context, [evaluate(cycle, snapshot)], result)
        reason = next((beat.reason for _, beat in result.settled), "")
    else:
        reason = _claim_manual(tx, now, context, snapshot, capacity, result, origin, event_id)
    tx.target_adjust_running(capacity.taken_by_target)
    skipped = SkipReason(reason) if not result.claims and reason in set(SkipReason) else None
    return SingleClaim(claims=tuple(result.claims), skip_reason=skipped)


def _claim_manual(
    tx: Transaction,
    now: datetime,
    context: ClaimContext,
    snapshot: ScheduleSnapshot,
    capacity: CapacitySnapshot,
    result: ClaimResult,
    origin: str,
    event_id: str,
) -> str:
    """Why not, if not."""
    enqueued = enqueue_manual(tx, now, snapshot.id, origin=origin, event_id=event_id)
    if enqueued.beat_id is None:
        return enqueued.skip_reason or ""
    waiting = [beat for beat in tx.beat_list_pending_by_schedule([snapshot.id]) if beat.id == enqueued.beat_id]
    claim_waiting(tx, now, context, waiting, {snapshot.id: snapshot}, capacity, result)
    return enqueued.waits_for or ""
