"""What an apply would do, without doing it: the same comparison as `arrange`, on a ledger that is only read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from herdbeat.domain.budget import BudgetOwner
from herdbeat.domain.change import ChangeData, ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Budget
from herdbeat.domain.schedule import Schedule, display_name
from herdbeat.domain.target import is_unmanaged
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.durations import format_duration
from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.forecast import clamp_interval, estimate_runs_per_day
from herdbeat.scheduler.apply.budgets import FLEET_SUBJECT, diff_budgets
from herdbeat.scheduler.apply.diff import diff_schedule, diff_target
from herdbeat.scheduler.apply.reschedule import replace_spec, reschedule_edited
from herdbeat.scheduler.apply.rows import (
    StoredSchedules,
    is_only_moved,
    list_removed_schedules,
    list_removed_targets,
    schedule_row,
    serialize_spec,
    target_row,
)
from herdbeat.store.base import CounterCheck, ScheduleRow, ScheduleSnapshot, TargetRow, Transaction
from herdbeat.triggers import Delay


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """What would become of one schedule; of a target, if only that differs. `runs` are those that history keeps."""

    what: ChangeKind
    subject: str
    before: ChangeData = field(default_factory=dict)
    after: ChangeData = field(default_factory=dict)
    next_before: datetime | None = None
    next_after: datetime | None = None
    runs: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPlan:
    """The plan of an apply, in file order, then what is removed. Runs are per day, of the whole fleet."""

    items: tuple[PlannedChange, ...]
    runs_before: float
    runs_after: float

    def count(self, what: ChangeKind) -> int:
        return sum(each.what is what for each in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFleet:
    """All that a plan needs of a ledger. An empty one is a ledger that is not there yet."""

    targets: Mapping[str, tuple[int, TargetRow]] = field(default_factory=dict)
    schedules: StoredSchedules = field(default_factory=dict)
    snapshots: Mapping[int, ScheduleSnapshot] = field(default_factory=dict)
    tallies: Mapping[int, CounterCheck] = field(default_factory=dict)
    budgets: Mapping[BudgetOwner, Budget] = field(default_factory=dict)


def load_stored_fleet(tx: Transaction) -> StoredFleet:
    """Reads only."""
    targets = tx.targets()
    schedules = tx.schedule_list_by_target(number for number, _ in targets.values())
    ids = [number for number, _ in schedules.values()]
    return StoredFleet(
        targets=targets,
        schedules=schedules,
        snapshots=tx.schedules(ids),
        tallies=tx.schedule_count_open(ids),
        budgets=tx.budgets(number for number, _ in targets.values()),
    )


def plan_apply(stored: StoredFleet, fleet: Fleet, now: datetime, *, is_whole: bool = True) -> ApplyPlan:
    """What `arrange` would do with this fleet at this moment."""
    ids = {name: number for name, (number, _) in stored.targets.items()}
    items, desired_keys, after = [], set(), 0.0
    for each in fleet.schedules:
        key = (ids.get(each.target, 0), each.name)
        desired_keys.add(key)
        after += _estimate_runs_per_day(
            ScheduleSpec(trigger=each.trigger, policies=each.policies), now, is_enabled=each.enabled
        )
        items.append(_plan_edit(stored, key, each, now) if key in stored.schedules else _plan_addition(each, now))
    gone = list_removed_schedules(stored.schedules, desired_keys) if is_whole else []
    left = stored.schedules.keys() - desired_keys - set(gone)
    items += [_plan_removal(stored, key) for key in gone]
    found = [each for each in items if each is not None]
    found += _plan_targets(stored, fleet, {target for target, _ in left}, found, is_whole=is_whole)
    found += _plan_budgets(stored, fleet, ids, is_whole=is_whole)
    after += sum(_stored_runs_per_day(stored, key, now) for key in left)
    before = sum(_stored_runs_per_day(stored, key, now) for key in stored.schedules)
    return ApplyPlan(items=tuple(found), runs_before=before, runs_after=after)


def _plan_addition(schedule: Schedule, now: datetime) -> PlannedChange:
    next_run_at = decide(now, ScheduleState.fresh(schedule, now)).next_run_at
    told = {"when": schedule.trigger.describe(), "timezone": schedule.policies.zone.key, "enabled": schedule.enabled}
    return PlannedChange(what=ChangeKind.ADD, subject=schedule.label, after=told, next_after=next_run_at)


def _plan_edit(stored: StoredFleet, key: tuple[int, str], schedule: Schedule, now: datetime) -> PlannedChange | None:
    number, row = stored.schedules[key]
    before = stored.snapshots[number]
    snapshot = replace_spec(before, schedule)
    is_same_plan = before.unreadable is None and serialize_spec(_reset_arm_count(before.plan)) == serialize_spec(
        snapshot.plan
    )
    new = schedule_row(schedule, key[0], row.plan_id if is_same_plan else 0)
    if new == row or is_only_moved(row, new):
        return None
    was, will = diff_schedule(row, before.plan if before.unreadable is None else None, new, snapshot.plan)
    return PlannedChange(
        what=ChangeKind.EDIT,
        subject=schedule.label,
        before=was,
        after=will,
        next_before=before.next_run_at,
        next_after=reschedule_edited(now, before, snapshot, stored.tallies[number]).next_run_at,
        warnings=(*_warn_ownership_change(row, new), *_warn_clamped_hints(now, before, snapshot)),
    )


def _reset_arm_count(plan: ScheduleSpec) -> ScheduleSpec:
    """A one-shot that was armed again knows how often; no file says so."""
    return replace(plan, trigger=replace(plan.trigger, arm=1)) if isinstance(plan.trigger, Delay) else plan


def _warn_ownership_change(row: ScheduleRow, new: ScheduleRow) -> Iterator[str]:
    if is_unmanaged(row.origin) and not is_unmanaged(new.origin):
        yield f"it was made by {row.origin}; from now on {new.origin} says what it is"


def _warn_clamped_hints(now: datetime, before: ScheduleSnapshot, snapshot: ScheduleSnapshot) -> Iterator[str]:
    old, new = before.plan.policies.limits, snapshot.plan.policies.limits
    for hint in before.hints:
        if hint.every is None or not hint.is_active(now):
            continue
        was, will = clamp_interval(hint.every, old), clamp_interval(hint.every, new)
        if was != will:
            asked, becomes = format_duration(hint.every), format_duration(will)
            yield f"the active hint by {hint.origin} (every {asked}) becomes {becomes}"


def _plan_removal(stored: StoredFleet, key: tuple[int, str]) -> PlannedChange:
    number, row = stored.schedules[key]
    snapshot = stored.snapshots[number]
    target = snapshot.label.rpartition("/")[0]
    return PlannedChange(
        what=ChangeKind.REMOVE,
        subject=display_name(target, row.name),
        next_before=snapshot.next_run_at,
        runs=snapshot.runs,
    )


def _plan_targets(
    stored: StoredFleet, fleet: Fleet, kept: set[int], items: list[PlannedChange], *, is_whole: bool
) -> Iterator[PlannedChange]:
    """Targets that differ themselves, and those that come or go without a schedule of their own."""
    told = {(each.what, each.subject.rpartition("/")[0] or each.subject) for each in items}
    for target in fleet.targets:
        row = target_row(target)
        known = stored.targets.get(target.name)
        if known is None and (ChangeKind.ADD, target.name) not in told:
            yield PlannedChange(what=ChangeKind.ADD, subject=target.name, after={"kind": row.kind})
        elif known is not None and (changed := diff_target(known[1], row)):
            yield PlannedChange(what=ChangeKind.EDIT, subject=target.name, after=changed)
    names = [target.name for target in fleet.targets]
    for name in list_removed_targets(stored.targets, names, kept) if is_whole else []:
        if (ChangeKind.REMOVE, name) not in told:
            yield PlannedChange(what=ChangeKind.REMOVE, subject=name)


def _plan_budgets(
    stored: StoredFleet, fleet: Fleet, ids: Mapping[str, int], *, is_whole: bool
) -> Iterator[PlannedChange]:
    """Shared ones that differ. Of a target that is new or gone, that line says enough."""
    kept_subjects = {FLEET_SUBJECT, *(target.name for target in fleet.targets if target.name in stored.targets)}
    for edit in diff_budgets(fleet, stored.budgets, ids, is_whole=is_whole):
        if edit.name in kept_subjects:
            before, after = {"budget": edit.before}, {"budget": edit.after}
            yield PlannedChange(what=ChangeKind.EDIT, subject=edit.name, before=before, after=after)


def _stored_runs_per_day(stored: StoredFleet, key: tuple[int, str], now: datetime) -> float:
    snapshot = stored.snapshots[stored.schedules[key][0]]
    return _estimate_runs_per_day(snapshot.plan, now, is_enabled=snapshot.enabled)


def _estimate_runs_per_day(plan: ScheduleSpec, now: datetime, *, is_enabled: bool) -> float:
    return estimate_runs_per_day(plan.timing, now) if is_enabled else 0.0
