"""The consistency check: finds rows that contradict each other, outside the claim path, repairs and reports them.

It should never find anything. Without it, a ledger that was damaged, edited by hand, or written by a version with a bug
would keep a schedule silent for ever, and nothing would notice.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.trigger import InstantSeries
from herdbeat.governor import decide
from herdbeat.scheduler.evaluate import build_schedule_change, governor_state
from herdbeat.scheduler.quarantine import decide_or_quarantine
from herdbeat.store.base import (
    ChangedSchedule,
    CounterCheck,
    InconsistencyCandidates,
    ScheduleSnapshot,
    TargetCounterCheck,
    Transaction,
)


class Inconsistency(NamedTuple):
    """A schedule, target or beat, and what was wrong with it."""

    subject: str
    what: str


@dataclass(slots=True)
class RepairPlan:
    """What is wrong, and the writes that repair it."""

    findings: list[Inconsistency] = field(default_factory=list)
    counters: list[tuple[int, int, int]] = field(default_factory=list)
    target_counters: list[tuple[int, int]] = field(default_factory=list)
    changes: list[ChangedSchedule] = field(default_factory=list)
    schedules_to_wake: list[int] = field(default_factory=list)
    beats_to_wake: list[int] = field(default_factory=list)
    stalled_targets: list[TargetCounterCheck] = field(default_factory=list)

    def report(self, subject: str, what: str) -> None:
        self.findings.append(Inconsistency(subject, what))


def repair(tx: Transaction, now: datetime, suspects: InconsistencyCandidates) -> list[Inconsistency]:
    """Inspect the candidates again, under the locks of a writer, repair what is really wrong, and return it."""
    repair_plan = inspect(tx, now, suspects)
    tx.set_counters(repair_plan.counters)
    tx.target_set_running(repair_plan.target_counters)
    tx.change_schedules(repair_plan.changes)
    tx.wake_schedules(repair_plan.schedules_to_wake, now)
    tx.wake_beats(repair_plan.beats_to_wake, now)
    for target in repair_plan.stalled_targets:
        tx.beat_wake_pending(target.id, target.max_concurrent - target.running, now)
    return repair_plan.findings


def inspect(tx: Transaction, now: datetime, suspects: InconsistencyCandidates) -> RepairPlan:
    """Return what is wrong with the candidates. Reads only."""
    repair_plan = RepairPlan()
    snapshots, tallies = tx.schedules(suspects.schedules), tx.schedule_count_open(suspects.schedules)
    for snapshot in snapshots.values():
        _inspect_schedule(now, snapshot, tallies[snapshot.id], repair_plan)
    for target in tx.target_count_running(suspects.targets):
        if target.counted != target.running:
            repair_plan.target_counters.append((target.id, target.running))
            what = f"recorded {target.counted} active runs instead of {target.running}"
            repair_plan.report(target.name, what)
    for target in tx.target_list_stalled(suspects.stalled_targets, now):
        repair_plan.stalled_targets.append(target)
        repair_plan.report(target.name, "beats waited although capacity was free")
    for beat_id, label in tx.beat_list_stuck(suspects.beats):
        repair_plan.beats_to_wake.append(beat_id)
        repair_plan.report(label, "a beat waited although nothing blocked it")
    return repair_plan


def _inspect_schedule(now: datetime, snapshot: ScheduleSnapshot, tally: CounterCheck, repair_plan: RepairPlan) -> None:
    counted = snapshot._replace(running=tally.running, waiting=tally.waiting)
    if snapshot.unreadable is not None and snapshot.quarantine is None:
        repair_plan.report(snapshot.label, snapshot.unreadable)
        repair_plan.changes.append(build_schedule_change(counted, quarantine=snapshot.unreadable))
        return
    if snapshot.running != tally.running:
        what = f"recorded {snapshot.running} active runs instead of {tally.running}"
        repair_plan.report(snapshot.label, what)
    if snapshot.waiting != tally.waiting:
        what = f"recorded {snapshot.waiting} waiting beats instead of {tally.waiting}"
        repair_plan.report(snapshot.label, what)
    if (snapshot.running, snapshot.waiting) != (tally.running, tally.waiting):
        repair_plan.counters.append((snapshot.id, tally.running, tally.waiting))
    if snapshot.quarantine is not None or not snapshot.enabled:
        return
    if snapshot.next_run_at is not None:
        if snapshot.plan.trigger.kind.waits_for_event:
            return  # a program recorded it (`update_schedule_state`): it is shown, and no clock fires it
        if snapshot.wake_at is None or snapshot.wake_at > snapshot.next_run_at:
            repair_plan.report(snapshot.label, "it had no wake-up time for its next run")
            repair_plan.schedules_to_wake.append(snapshot.id)
    elif snapshot.wake_at is None and not tally.running and not tally.open:
        _reschedule(now, counted, repair_plan)


def _reschedule(now: datetime, snapshot: ScheduleSnapshot, repair_plan: RepairPlan) -> None:
    """Decide a calendar as of the last settled instant, so that the next cycle settles what has passed since then."""
    at = min(now, snapshot.settled_until) if isinstance(snapshot.plan.trigger, InstantSeries) else now

    def reschedule() -> None:
        state = governor_state(snapshot)
        # A pause that is over would hide that nothing follows it: a calendar that has ended is not missing anything.
        released = replace(
            state,
            pause=state.pause if state.pause is not None and state.pause.is_active(now) else None,
            windows=tuple(window for window in state.windows if window.until > now),
        )
        expected, decision = decide(at, released), decide(at, state)
        if expected.next_run_at is not None or expected.wake_at is not None:
            repair_plan.report(snapshot.label, "its next run was missing")
            repair_plan.changes.append(build_schedule_change(snapshot, decision))

    def quarantine(reason: str) -> None:
        repair_plan.report(snapshot.label, f"its next run cannot be computed: {reason}")
        repair_plan.changes.append(build_schedule_change(snapshot, quarantine=reason))

    decide_or_quarantine(reschedule, quarantine)
