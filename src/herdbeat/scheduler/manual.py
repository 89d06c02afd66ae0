"""Manual beats and attempts: written like any other beat, so that they meet the same capacity, limits and records.

They do not move the schedule's own next run. A person may run what is paused or disabled, a machine may not. A retry is
one more attempt at the same beat, which a target recognizes by its dedup id: its success resets the failure count, and
its failure adds nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.manual_request import ManualRequest
from herdbeat.domain.policies import Overlap
from herdbeat.domain.run import Claim, RunStatus
from herdbeat.domain.trigger import TriggerKind, event_dedup_id
from herdbeat.governor.hints import is_human
from herdbeat.scheduler.account_holds import find_account_hold
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, ClaimResult, claim_evaluated, claim_pending, load_capacity
from herdbeat.scheduler.evaluate import (
    ClaimCycle,
    OverlapAction,
    build_beat,
    evaluate,
    is_due,
    is_quarantined,
    resolve_overlap,
)
from herdbeat.scheduler.instants import InstantRange
from herdbeat.store.base import LastAttempt, ScheduleSnapshot, TargetCapacity, Transaction

_FINAL_SKIP_REASONS = (SkipReason.CONFIG_ERROR, SkipReason.DISABLED, SkipReason.PAUSED)
"""Reasons that waiting does not change."""

NO_REQUEST = ManualRequest()
_QUEUEING_OVERLAPS = (Overlap.QUEUE, Overlap.QUEUE_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueResult:
    """The beat that was written, and what it waits for; or None, and the reason."""

    beat_id: int | None
    skip_reason: SkipReason | None = None
    waits_for: SkipReason | None = None
    running: int = 0
    max_concurrent: int = 0
    next_run_at: datetime | None = None
    hold: AccountHold | None = None


def enqueue_manual(
    tx: Transaction,
    now: datetime,
    schedule_id: int,
    *,
    origin: str,
    event_id: str,
    queue: bool = False,
    request: ManualRequest = NO_REQUEST,
) -> EnqueueResult:
    """Write a beat that is due now. One that cannot start at once is refused, unless `queue` is set."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    capacity = tx.target_get_capacity([snapshot.target_id])[snapshot.target_id]
    held = find_account_hold(tx, now, schedule_id)
    obstacle = _find_hold(now, snapshot, origin) or _find_obstacle(snapshot, capacity, held)
    # A schedule that queues behind itself does so by hand, too.
    queues = snapshot.plan.policies.overlap in _QUEUEING_OVERLAPS and obstacle is SkipReason.ALREADY_RUNNING
    result = EnqueueResult(
        beat_id=None,
        running=capacity.running,
        max_concurrent=capacity.max_concurrent,
        next_run_at=snapshot.next_run_at,
        hold=held,
    )
    if obstacle in _FINAL_SKIP_REASONS or (obstacle is not None and not queue and not queues):
        return replace(result, skip_reason=obstacle)
    # Due now, obstacle or not: the loop evaluates it once, and wakes it again when there is capacity.
    instants, dedup_id = InstantRange.single(now), event_dedup_id(TriggerKind.MANUAL, event_id)
    outcome, reason, source = BeatOutcome.PENDING, obstacle or "", Source.MANUAL
    beat = build_beat(now, snapshot, instants, outcome, reason, source, dedup_id=dedup_id, origin=origin, wake_at=now)
    return replace(result, beat_id=tx.add_beats([beat._replace(payload=request.to_text())])[0], waits_for=obstacle)


def _find_hold(now: datetime, snapshot: ScheduleSnapshot, origin: str) -> SkipReason | None:
    """Return the pause or switch that holds a machine; a person may run such a schedule by hand."""
    if is_human(origin):
        return None
    if not snapshot.enabled:
        return SkipReason.DISABLED
    return None if snapshot.pause_at(now) is None else SkipReason.PAUSED


def _find_obstacle(snapshot: ScheduleSnapshot, capacity: TargetCapacity, held: AccountHold | None) -> SkipReason | None:
    """A full target comes before its runs: `at_capacity` is the documented answer, also if this schedule fills it."""
    if snapshot.unreadable is not None:
        return SkipReason.CONFIG_ERROR
    if held is not None:
        return SkipReason.RATE_LIMITED
    if capacity.running >= capacity.max_concurrent:
        return SkipReason.AT_CAPACITY
    policy, has_active_run = snapshot.plan.policies.overlap, snapshot.running > 0
    action = resolve_overlap(policy, has_active_run=has_active_run, has_queued_beat=False)
    return None if action is OverlapAction.START else SkipReason.ALREADY_RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryResult:
    """The attempt that was written; or None, and what is in the way."""

    last: LastAttempt
    attempt: int | None = None
    obstacle: str = ""


def retry_run(tx: Transaction, now: datetime, run_id: int, *, by: str, force: bool = False) -> RetryResult | None:
    """Make the beat of a run pending again, for one more attempt that is due now. None if there is no such run.

    A run that succeeded is repeated only with `force`: an agent's work is not done twice by accident.
    """
    last = tx.last_attempt(run_id)
    if last is None:
        return None
    # Read again under the lock of its schedule: two requests at once had the same attempt started by two nodes.
    snapshot = tx.schedules([last.schedule_id])[last.schedule_id]
    last = tx.last_attempt(run_id) or last
    obstacle = "its schedule was removed" if snapshot.is_removed else find_retry_obstacle(last, force=force)
    if obstacle:
        return RetryResult(last=last, obstacle=obstacle)
    tx.retry_beat(last.beat_id, last.attempt + 1, by=by, reason=Source.RETRY, now=now)
    return RetryResult(last=last, attempt=last.attempt + 1)


def find_retry_obstacle(last: LastAttempt, *, force: bool) -> str:
    """Return what keeps a beat from another attempt; empty if nothing does. Pure."""
    if last.status is RunStatus.RUNNING:
        return "it is still running"
    if last.outcome in (BeatOutcome.PENDING, BeatOutcome.RUNNING):
        return "another attempt is already waiting"
    if last.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED) and not force:
        return f"it {'succeeded' if last.status is RunStatus.SUCCEEDED else 'declined to run'}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleClaim:
    """What was claimed without a loop; or nothing, and why."""

    claims: tuple[Claim, ...] = ()
    skip_reason: SkipReason | None = None


def claim_single(
    tx: Transaction, now: datetime, node_id: int, schedule_id: int, *, origin: str, event_id: str
) -> SingleClaim:
    """Claim its beat if it is due, so that this run decides the next one; else a beat by hand beside it."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    context, result = ClaimContext(node_id, 100, CatchupPacer(1)), ClaimResult()
    cycle = ClaimCycle(now, load_capacity(tx, now, context, [snapshot]), tuple(tx.gaps(snapshot.next_run_at or now)))
    if not is_quarantined(snapshot) and is_due(now, snapshot):
        claim_evaluated(tx, cycle, context, [evaluate(cycle, snapshot)], result)
        reason = next((beat.reason for _, beat in result.settled), "")
    else:
        enqueued = enqueue_manual(tx, now, schedule_id, origin=origin, event_id=event_id)
        reason = enqueued.skip_reason or enqueued.waits_for or ""
        if enqueued.beat_id is not None:
            pending = [beat for beat in tx.beat_list_pending_by_schedule([schedule_id]) if beat.id == enqueued.beat_id]
            result.claims += claim_pending(tx, cycle, context, pending, {schedule_id: snapshot})
    tx.target_adjust_running(cycle.capacity.taken_by_target)
    skipped = SkipReason(reason) if not result.claims and reason in set(SkipReason) else None
    return SingleClaim(claims=tuple(result.claims), skip_reason=skipped)
