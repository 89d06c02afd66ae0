"""A beat by hand: written down like any other, so that it meets the same room, limits and records.

It does not move the schedule's own next run. A person may fire what is paused or disabled, a machine may not.
"""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Overlap
from herdbeat.domain.run import Claim, RunStatus
from herdbeat.domain.trigger import TriggerKind, event_dedup_id
from herdbeat.governor.hints import is_human
from herdbeat.scheduler.budgets import load_budgets
from herdbeat.scheduler.capacity import CapacitySnapshot, CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, ClaimResult, claim_waiting, write_evaluations
from herdbeat.scheduler.evaluate import OverlapAction, evaluate, is_due, resolve_overlap
from herdbeat.scheduler.evaluation import ClaimCycle
from herdbeat.store.base import LastAttempt, NewBeat, ScheduleSnapshot, TargetCapacity, Transaction

_FINAL_SKIP_REASONS = (SkipReason.CONFIG_ERROR, SkipReason.DISABLED, SkipReason.PAUSED)
"""What no waiting helps against."""

_QUEUEING_OVERLAPS = (Overlap.QUEUE, Overlap.QUEUE_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueResult:
    """The beat that was written; or none, and the reason. `waits_for` says what it has to wait for first."""

    beat_id: int | None
    skip_reason: SkipReason | None = None
    waits_for: SkipReason | None = None
    running: int = 0
    room: int = 0
    next_run_at: datetime | None = None


def enqueue_manual(
    tx: Transaction, now: datetime, schedule_id: int, *, origin: str, event_id: str, queue: bool = False
) -> EnqueueResult:
    """Write a beat that is due now. What cannot start at once is refused, unless asked to `queue`."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    room = tx.target_get_capacity([snapshot.target_id])[snapshot.target_id]
    obstacle = _find_hold(now, snapshot, origin) or _find_obstacle(snapshot, room)
    refused = obstacle in _FINAL_SKIP_REASONS or (
        obstacle is not None and not queue and not _can_queue(snapshot, obstacle)
    )
    beat_id = None if refused else tx.add_beats([_build_manual_beat(now, snapshot, origin, event_id, obstacle)])[0]
    return EnqueueResult(
        beat_id=beat_id,
        skip_reason=obstacle if refused else None,
        waits_for=None if refused else obstacle,
        running=room.running,
        room=room.max_concurrent,
        next_run_at=snapshot.next_run_at,
    )


def _find_hold(now: datetime, snapshot: ScheduleSnapshot, origin: str) -> SkipReason | None:
    """What is switched off or paused, a person may run by hand; a machine may not."""
    if is_human(origin):
        return None
    if not snapshot.enabled:
        return SkipReason.DISABLED
    return SkipReason.PAUSED if snapshot.pause is not None and snapshot.pause.is_active(now) else None


def _find_obstacle(snapshot: ScheduleSnapshot, room: TargetCapacity) -> SkipReason | None:
    """A full target comes first: `at_capacity` is the documented answer, also if this schedule fills it."""
    if snapshot.unreadable is not None:
        return SkipReason.CONFIG_ERROR
    if room.running >= room.max_concurrent:
        return SkipReason.AT_CAPACITY
    action = resolve_overlap(snapshot.plan.policies.overlap, running=snapshot.running > 0, waiting=False)
    return None if action is OverlapAction.START else SkipReason.ALREADY_RUNNING


def _can_queue(snapshot: ScheduleSnapshot, obstacle: SkipReason) -> bool:
    """A schedule that queues behind itself does so by hand, too."""
    return obstacle is SkipReason.ALREADY_RUNNING and snapshot.plan.policies.overlap in _QUEUEING_OVERLAPS


def _build_manual_beat(
    now: datetime, snapshot: ScheduleSnapshot, origin: str, event_id: str, obstacle: SkipReason | None
) -> NewBeat:
    """Due now, obstacle or not: the loop looks at it once, and wakes it again when room comes."""
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=event_dedup_id(TriggerKind.MANUAL, event_id),
        due_at=now,
        last_due_at=now,
        number=1,
        outcome=BeatOutcome.PENDING,
        reason=obstacle or "",
        source=Source.MANUAL,
        origin=origin,
        priority=snapshot.plan.policies.priority,
        wake_at=now,
        created_at=now,
    )


# A run again, by hand: one more attempt at the same beat, which a target can tell from a new one by its key.
#
# It is a person's act, not the clock's: it moves no anchor and no next run, its success mends the failure count, and
# its failure adds nothing.


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryResult:
    """The attempt that was written down; or none, and what is in the way."""

    last: LastAttempt
    attempt: int | None = None
    obstacle: str = ""


def retry_run(tx: Transaction, now: datetime, run_id: int, *, by: str, force: bool = False) -> RetryResult | None:
    """Let the beat of a run wait for one more attempt, due now. None if there is no such run.

    Only what did not succeed is run again, unless `force` insists: an agent's work is not repeated behind one's back.
    """
    last = tx.last_attempt(run_id)
    if last is None:
        return None
    # Looked at again under its lock: two who asked at once had the same attempt started by two nodes.
    tx.schedules([last.schedule_id])
    last = tx.last_attempt(run_id) or last
    obstacle = find_retry_obstacle(last, force=force)
    if obstacle:
        return RetryResult(last=last, obstacle=obstacle)
    tx.retry_beat(last.beat_id, last.attempt + 1, by=by, reason=Source.RETRY, now=now)
    return RetryResult(last=last, attempt=last.attempt + 1)


def find_retry_obstacle(last: LastAttempt, *, force: bool) -> str:
    """What keeps a beat from another attempt; empty if nothing does. Pure."""
    if last.status is RunStatus.RUNNING:
        return "it is still going"
    if last.outcome in (BeatOutcome.PENDING, BeatOutcome.RUNNING):
        return "another attempt at it waits already"
    if last.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED) and not force:
        return f"it {'succeeded' if last.status is RunStatus.SUCCEEDED else 'declined to run'}"
    return ""


# One schedule, once, without a loop: for who wants a single run and nothing else that may be due.


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
