"""Settle what came due under a plan before that plan is replaced or removed.

Otherwise the next claim would count the instants of the old plan by the calendar of the new one. After an outage of two
hours over an edit, twelve instants of every ten minutes became three of every hour, and nine were in no row.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from herdbeat.domain.beat import Gap, MissedReason, SkipReason
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import InstantSeries
from herdbeat.scheduler.capacity import CapacitySnapshot, CatchupPacer
from herdbeat.scheduler.claim import assign_catchup_slots, evaluate_or_quarantine, load_recorded, write_evaluations
from herdbeat.scheduler.control import is_held, is_paused, settle_outside_hours
from herdbeat.scheduler.evaluate import ClaimCycle, Evaluation, is_due, is_quarantined, skip_passed
from herdbeat.scheduler.quarantine import decide_or_quarantine
from herdbeat.store.base import ScheduleSnapshot, Transaction

DEFAULT_LEASE = timedelta(seconds=30)
"""The lease of a fleet that does not set one."""

PlanReplacement = tuple[ScheduleSnapshot, ScheduleSpec | None]
"""A schedule, and the plan that it is going to have; None if it is removed."""


def remove_schedules(tx: Transaction, now: datetime, ids: Collection[int], lease: timedelta = DEFAULT_LEASE) -> None:
    """Remove schedules from the ledger. Their history stays, and accounts for everything up to now."""
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
    """Settle everything up to now, and return the schedules whose due instants were evaluated, as they are now.

    What may still run becomes pending, and has the first pick of the next cycle.
    """
    due = {snapshot.id for snapshot, plan in replacements if _is_due_under_old_plan(now, snapshot, plan)}
    snapshots = load_recorded(tx, now, [snapshot for snapshot, _ in replacements])
    gaps = _load_gaps(tx, now, [snapshot for snapshot in snapshots if snapshot.id in due], lease) if due else ()
    cycle = ClaimCycle(now, CapacitySnapshot(0), gaps)  # no capacity: nothing starts here
    evaluations = [evaluate_or_quarantine(cycle, snapshot) for snapshot in snapshots if snapshot.id in due]
    evaluations += _skip_held_instants(now, [snapshot for snapshot in snapshots if snapshot.id not in due])
    assign_catchup_slots(tx, now, CatchupPacer(catchup_rate), evaluations)
    write_evaluations(tx, now, evaluations)
    return tx.schedules(due) if due else {}


def _is_due_under_old_plan(now: datetime, snapshot: ScheduleSnapshot, plan: ScheduleSpec | None) -> bool:
    """True if it is due and not yet claimed, and the claim could not count its instants by the new plan."""
    if is_quarantined(snapshot) or not is_due(now, snapshot):
        return False
    return plan is None or has_calendar_changed(snapshot.plan, plan)


def has_calendar_changed(old: ScheduleSpec, new: ScheduleSpec) -> bool:
    """True if instants of one plan cannot be counted by the other. An interval has none of its own."""
    has_instants = isinstance(old.trigger, InstantSeries) or isinstance(new.trigger, InstantSeries)
    return has_instants and old.trigger != new.trigger


def _skip_held_instants(now: datetime, snapshots: Iterable[ScheduleSnapshot]) -> list[Evaluation]:
    """What passed while it was held, or outside its hours, belongs to the plan under which it was held."""
    evaluations = []
    for snapshot in snapshots:
        evaluation, reason = Evaluation(snapshot), _find_hold_reason(now, snapshot)
        if snapshot.unreadable is not None:
            continue  # its instants are unknown
        if reason is not None:
            _skip_passed(now, evaluation, reason)
        elif snapshot.plan.policies.active_hours is not None:
            settle_outside_hours(now, evaluation)
        else:
            continue
        evaluations.append(evaluation)
    return evaluations


def _find_hold_reason(now: datetime, snapshot: ScheduleSnapshot) -> SkipReason | None:
    if is_held(now, snapshot):
        return SkipReason.PAUSED if is_paused(now, snapshot) else SkipReason.DISABLED
    return SkipReason.CONFIG_ERROR if snapshot.quarantine is not None else None


def _skip_passed(now: datetime, evaluation: Evaluation, reason: SkipReason) -> None:
    if evaluation.snapshot.quarantine is None:
        skip_passed(now, evaluation, reason)
    else:
        # It may be in quarantine for this very calendar: what that cannot count stays unsettled.
        decide_or_quarantine(lambda: skip_passed(now, evaluation, reason), lambda _: None)


def _load_gaps(tx: Transaction, now: datetime, due: Iterable[ScheduleSnapshot], lease: timedelta) -> tuple[Gap, ...]:
    """Return the gaps in the ledger, and the one that lasts until now: that is written only when a node starts.

    A live node has sent a heartbeat within its lease.
    """
    since = min(snapshot.next_due_at for snapshot in due if snapshot.next_due_at is not None)
    known_gaps = tuple(tx.gaps(since))
    last_heartbeat_at = tx.node_get_last_seen()
    if last_heartbeat_at is None or now - last_heartbeat_at <= lease:
        return known_gaps
    return (*known_gaps, Gap(from_at=last_heartbeat_at, until=now, reason=MissedReason.SCHEDULER_DOWN))
