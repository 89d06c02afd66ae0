"""The invariant scan: finds what cannot be, outside the fire path, puts it right and says so.

Nothing of this should ever be found. A ledger that was damaged, edited by hand, or written by a version with a bug
would otherwise keep a schedule silent for ever: nobody waits for what nobody expects.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.decision import Decision
from herdbeat.governor import decide
from herdbeat.scheduler.evaluate import governor_state
from herdbeat.scheduler.evaluation import serialize_trace
from herdbeat.scheduler.quarantine import clear_next_run, format_reason
from herdbeat.store.base import (
    ChangedSchedule,
    CounterCheck,
    InconsistencyCandidates,
    ScheduleSnapshot,
    TargetCounterCheck,
    Transaction,
)


class Inconsistency(NamedTuple):
    """What was wrong, and with whom."""

    subject: str
    what: str


@dataclass(slots=True)
class RepairPlan:
    """What is wrong, and what would put it right."""

    findings: list[Inconsistency] = field(default_factory=list)
    counters: list[tuple[int, int, int]] = field(default_factory=list)
    target_counters: list[tuple[int, int]] = field(default_factory=list)
    changes: list[ChangedSchedule] = field(default_factory=list)
    schedules_to_wake: list[int] = field(default_factory=list)
    beats_to_wake: list[int] = field(default_factory=list)
    stalled_targets: list[TargetCounterCheck] = field(default_factory=list)


def repair(tx: Transaction, now: datetime, suspects: InconsistencyCandidates) -> list[Inconsistency]:
    """Look at the suspects again, under the writer's own lock, and put right what is really wrong."""
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
    """The same without touching anything."""
    repair_plan = RepairPlan()
    snapshots, tallies = tx.schedules(suspects.schedules), tx.schedule_count_open(suspects.schedules)
    for snapshot in snapshots.values():
        _inspect_schedule(now, snapshot, tallies[snapshot.id], repair_plan)
    for target in tx.target_count_running(suspects.targets):
        if target.counted != target.running:
            repair_plan.target_counters.append((target.id, target.running))
            what = f"its row said {target.counted} running, its open runs say {target.running}"
            repair_plan.findings.append(Inconsistency(target.name, what))
    for target in tx.target_list_stalled(suspects.stalled_targets, now):
        repair_plan.stalled_targets.append(target)
        repair_plan.findings.append(Inconsistency(target.name, "beats waited for room that was there"))
    for beat_id, label in tx.beat_list_stuck(suspects.beats):
        repair_plan.beats_to_wake.append(beat_id)
        repair_plan.findings.append(Inconsistency(label, "a beat waited for nothing"))
    return repair_plan


def _inspect_schedule(now: datetime, snapshot: ScheduleSnapshot, tally: CounterCheck, repair_plan: RepairPlan) -> None:
    if snapshot.unreadable is not None and snapshot.quarantine is None:
        repair_plan.findings.append(Inconsistency(snapshot.label, snapshot.unreadable))
        repair_plan.changes.append(clear_next_run(_build_schedule_change(snapshot, tally), snapshot.unreadable))
        return
    repair_plan.findings += _find_miscounts(snapshot, tally)
    if (snapshot.running, snapshot.waiting) != (tally.running, tally.waiting):
        repair_plan.counters.append((snapshot.id, tally.running, tally.waiting))
    if snapshot.quarantine is not None or not snapshot.enabled:
        return
    if snapshot.next_run_at is not None:
        if snapshot.wake_at is None or snapshot.wake_at > snapshot.next_run_at:
            repair_plan.findings.append(Inconsistency(snapshot.label, "nothing would have woken it for its next run"))
            repair_plan.schedules_to_wake.append(snapshot.id)
    elif snapshot.wake_at is None and not tally.running and not tally.open:
        _reschedule(now, snapshot, tally, repair_plan)


def _find_miscounts(snapshot: ScheduleSnapshot, tally: CounterCheck) -> Iterator[Inconsistency]:
    if snapshot.running != tally.running:
        what = f"its row said {snapshot.running} running, its open runs say {tally.running}"
        yield Inconsistency(snapshot.label, what)
    if snapshot.waiting != tally.waiting:
        what = f"its row said {snapshot.waiting} waiting, its pending beats say {tally.waiting}"
        yield Inconsistency(snapshot.label, what)


def _reschedule(now: datetime, snapshot: ScheduleSnapshot, tally: CounterCheck, repair_plan: RepairPlan) -> None:
    """A calendar is decided from the mark, so that what has passed unseen since then is settled by the next turn."""
    at = now if snapshot.plan.trigger.interval is not None else min(now, snapshot.settled_until)
    try:
        decision = decide(at, governor_state(snapshot))
    except Exception as error:  # noqa: BLE001 - a schedule that cannot be decided is quarantined, here as anywhere
        reason = format_reason(error)
        repair_plan.findings.append(Inconsistency(snapshot.label, f"it cannot be decided: {reason}"))
        repair_plan.changes.append(clear_next_run(_build_schedule_change(snapshot, tally), reason))
        return
    if decision.next_run_at is not None or decision.wake_at is not None:
        repair_plan.findings.append(Inconsistency(snapshot.label, "it had no next run, although it is to run again"))
        repair_plan.changes.append(_build_schedule_change(snapshot, tally, decision))


def _build_schedule_change(
    snapshot: ScheduleSnapshot, tally: CounterCheck, decision: Decision | None = None
) -> ChangedSchedule:
    return ChangedSchedule(
        id=snapshot.id,
        next_run_at=decision.next_run_at if decision else None,
        next_due_at=decision.due_at if decision else None,
        next_source=decision.source if decision else snapshot.next_source,
        next_origin=decision.origin if decision else snapshot.next_origin,
        next_trace=serialize_trace(decision) if decision else None,
        wake_at=decision.wake_at if decision else None,
        anchor_at=snapshot.anchor_at,
        settled_until=snapshot.settled_until,
        is_new=snapshot.is_new,
        failures=snapshot.failures,
        runs=snapshot.runs,
        running=tally.running,
        waiting=tally.waiting,
        tail_id=snapshot.tail_id,
        tail=snapshot.tail,
    )
