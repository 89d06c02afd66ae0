"""A plan gives way to another, or to none: what came due under it is settled under it, before anything is replaced.

Else the next claim would count the instants of the old plan by the calendar of the new one. After an outage of two
hours over an edit, twelve instants of every ten minutes were three of every hour, and nine were in no row.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from herdbeat.domain.beat import Gap, MissedReason, SkipReason
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import CalendarTrigger
from herdbeat.scheduler.capacity import CapacitySnapshot, CatchupPacer
from herdbeat.scheduler.claim import ClaimResult, write_evaluations
from herdbeat.scheduler.control import NON_CLAIMING_CONTEXT, is_held, is_paused, settle_outside_hours
from herdbeat.scheduler.evaluate import evaluate, is_due, skip_passed
from herdbeat.scheduler.evaluation import ClaimCycle, Evaluation
from herdbeat.scheduler.quarantine import quarantine_evaluation
from herdbeat.store.base import ScheduleSnapshot, Transaction

DEFAULT_LEASE = timedelta(seconds=30)
"""Of a fleet that says nothing else."""

PlanReplacement = tuple[ScheduleSnapshot, ScheduleSpec | None]
"""How a schedule stands, and the plan that it is to have; None if it is removed."""


def remove_schedules(tx: Transaction, now: datetime, ids: Collection[int], lease: timedelta = DEFAULT_LEASE) -> None:
    """Take schedules out of the ledger. Their history stays, and says of everything up to now what became of it."""
    if not ids:
        return
    settle_due_instants(tx, now, [(snapshot, None) for snapshot in tx.schedules(ids).values()], lease)
    tx.remove_schedules(list(ids), now)


def settle_due_instants(
    tx: Transaction,
    now: datetime,
    replacements: Collection[PlanReplacement],
    lease: timedelta = DEFAULT_LEASE,
    catchup_rate: float = 10.0,
) -> dict[int, ScheduleSnapshot]:
    """Account for everything up to now. Returns how those stand now whose due instants were judged.

    What may still run waits, and has the first pick of the next turn.
    """
    due = {snapshot.id for snapshot, plan in replacements if _is_due_under_old_plan(now, snapshot, plan)}
    gaps = _load_gaps(tx, now, [snapshot for snapshot, _ in replacements if snapshot.id in due], lease) if due else ()
    cycle = ClaimCycle(now, CapacitySnapshot(0), CatchupPacer(catchup_rate), gaps)
    evaluations = [_evaluate_or_quarantine(cycle, snapshot) for snapshot, _ in replacements if snapshot.id in due]
    evaluations += _skip_held_instants(cycle, [snapshot for snapshot, _ in replacements if snapshot.id not in due])
    write_evaluations(tx, cycle, NON_CLAIMING_CONTEXT, evaluations, ClaimResult())
    return tx.schedules(due) if due else {}


def _is_due_under_old_plan(now: datetime, snapshot: ScheduleSnapshot, plan: ScheduleSpec | None) -> bool:
    """Due, and not yet claimed. By the same calendar the claim itself accounts for it, and better: it has the room."""
    if snapshot.unreadable is not None or snapshot.quarantine is not None or not is_due(now, snapshot):
        return False
    return plan is None or has_calendar_changed(snapshot.plan, plan)


def has_calendar_changed(old: ScheduleSpec, new: ScheduleSpec) -> bool:
    """Instants of the one cannot be counted by the other. A pace has none of its own."""
    has_calendar = isinstance(old.trigger, CalendarTrigger) or isinstance(new.trigger, CalendarTrigger)
    return has_calendar and old.trigger != new.trigger


def _evaluate_or_quarantine(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> Evaluation:
    try:
        return evaluate(cycle, snapshot)
    except Exception as error:  # noqa: BLE001 - the plan that goes is broken; the one that comes may be right
        return quarantine_evaluation(cycle.now, snapshot, error)


def _skip_held_instants(cycle: ClaimCycle, snapshots: Iterable[ScheduleSnapshot]) -> list[Evaluation]:
    """What passed while it was held, or outside its hours, belongs to the plan that it was held under."""
    evaluations = []
    for snapshot in snapshots:
        evaluation = Evaluation(snapshot)
        reason = _find_hold_reason(cycle.now, snapshot)
        if snapshot.unreadable is not None:
            continue  # nobody can say any more which instants it had
        if reason is not None:
            _skip_passed_safely(cycle, evaluation, reason)
        elif snapshot.plan.policies.active_hours is not None:
            settle_outside_hours(cycle.now, evaluation)
        else:
            continue
        evaluations.append(evaluation)
    return evaluations


def _find_hold_reason(now: datetime, snapshot: ScheduleSnapshot) -> SkipReason | None:
    if is_held(now, snapshot):
        return SkipReason.PAUSED if is_paused(now, snapshot) else SkipReason.DISABLED
    return SkipReason.CONFIG_ERROR if snapshot.quarantine is not None else None


def _skip_passed_safely(cycle: ClaimCycle, evaluation: Evaluation, reason: SkipReason) -> None:
    try:
        skip_passed(cycle, evaluation, reason)
    except Exception:
        if evaluation.snapshot.quarantine is None:
            raise
        # The very calendar that it was put away for: what it cannot count, nobody can.


def _load_gaps(tx: Transaction, now: datetime, due: Iterable[ScheduleSnapshot], lease: timedelta) -> tuple[Gap, ...]:
    """Those in the ledger; and the one that lasts until now, which is written only when a node comes.

    A node that lives has shown a sign of it within its lease.
    """
    since = min(each.next_due_at for each in due if each.next_due_at is not None)
    known_gaps = tuple(tx.gaps(since))
    last_heartbeat_at = tx.node_get_last_seen()
    if last_heartbeat_at is None or now - last_heartbeat_at <= lease:
        return known_gaps
    return (*known_gaps, Gap(from_at=last_heartbeat_at, until=now, reason=MissedReason.SCHEDULER_DOWN))
