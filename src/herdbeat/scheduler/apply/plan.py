"""The plan of an apply: what differs between a fleet and the ledger. `--dry-run` shows it, `apply_fleet` executes it.

A plan only compares rows, which is cheap: an apply of 100,000 schedules that stay the same reads no schedule's state.
What it means for their next runs is computed when somebody looks at `items`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from herdbeat.domain.budget import FLEET_OWNER, BudgetOwner, BudgetScope
from herdbeat.domain.change import ChangeData, ChangeKind
from herdbeat.domain.codec import to_json
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Budget
from herdbeat.domain.schedule import RunSpec, Schedule, display_name
from herdbeat.domain.target import is_unmanaged
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.durations import format_duration
from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.forecast import estimate_runs_per_day
from herdbeat.redaction import register_secrets
from herdbeat.scheduler.apply.diff import describe_budget, diff_schedule, diff_target
from herdbeat.scheduler.apply.reschedule import build_spec, readable_spec, replace_spec, reschedule_edited
from herdbeat.store.base import CounterCheck, ScheduleRow, ScheduleSnapshot, TargetRow, Transaction

ScheduleKey = tuple[int, str]
"""A schedule by the id of its target and its name."""

FLEET_SUBJECT = "the fleet"
"""The fleet's name in the record of changes. No target can have this name: it has a blank."""

UNSAVED_ID = 0
"""The id of a target or plan that is not in the ledger yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFleet:
    """What a plan needs of a ledger. `snapshots` and `tallies` are needed to show a plan, not to execute it."""

    targets: Mapping[str, tuple[int, TargetRow]] = field(default_factory=dict)
    schedules: Mapping[ScheduleKey, tuple[int, ScheduleRow]] = field(default_factory=dict)
    budgets: Mapping[BudgetOwner, Budget] = field(default_factory=dict)
    snapshots: Mapping[int, ScheduleSnapshot] = field(default_factory=dict)
    tallies: Mapping[int, CounterCheck] = field(default_factory=dict)

    @property
    def target_ids(self) -> dict[str, int]:
        return {name: number for name, (number, _) in self.targets.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """What an apply does with one schedule; with a target, if only that differs. `runs` are those in its history."""

    what: ChangeKind
    subject: str
    before: ChangeData = field(default_factory=dict)
    after: ChangeData = field(default_factory=dict)
    next_before: datetime | None = None
    next_after: datetime | None = None
    runs: int = 0
    warnings: tuple[str, ...] = ()


class DesiredSchedule(NamedTuple):
    """A schedule of the fleet, its plan as text, and its row; the ids in it may be UNSAVED_ID."""

    schedule: Schedule
    plan_text: str
    row: ScheduleRow


class ScheduleEdit(NamedTuple):
    """A stored schedule that differs from the fleet's."""

    id: int
    before: ScheduleRow
    desired: DesiredSchedule


class TargetEdit(NamedTuple):
    """A stored target whose row changes."""

    id: int
    before: TargetRow
    after: TargetRow


class BudgetEdit(NamedTuple):
    """A shared budget that differs: that of the fleet, or of a target by its name."""

    name: str
    before: Budget | None
    after: Budget | None

    def describe(self) -> tuple[ChangeData, ChangeData]:
        """Before and after, in the words of the file."""
        return {"budget": describe_budget(self.before)}, {"budget": describe_budget(self.after)}


@dataclass(frozen=True, kw_only=True)
class ApplyPlan:
    """What an apply does, as rows; and, in `items`, in words."""

    stored: StoredFleet
    fleet: Fleet
    now: datetime
    new_targets: list[TargetRow] = field(default_factory=list)
    target_edits: list[TargetEdit] = field(default_factory=list)
    removed_targets: list[str] = field(default_factory=list)
    budget_edits: list[BudgetEdit] = field(default_factory=list)
    additions: list[DesiredSchedule] = field(default_factory=list)
    edits: list[ScheduleEdit] = field(default_factory=list)
    moves: list[tuple[int, str]] = field(default_factory=list)
    removals: list[ScheduleKey] = field(default_factory=list)

    def count(self, what: ChangeKind) -> int:
        return sum(item.what is what for item in self.items)

    def list_changed_targets(self) -> list[str]:
        """Return the stored targets that differ themselves, and those with another shared budget: FLEET_SUBJECT too."""
        edited = [edit.after.name for edit in self.target_edits if diff_target(edit.before, edit.after)]
        return list(dict.fromkeys([*edited, *(edit.name for edit in self._list_stored_budget_edits())]))

    @cached_property
    def items(self) -> tuple[PlannedChange, ...]:
        """Schedules in the order of the files, then those that are removed, then targets and budgets."""
        edits = {(edit.before.target_id, edit.before.name): edit for edit in self.edits}
        added = {desired.schedule.id for desired in self.additions}
        items, ids = list[PlannedChange](), self.stored.target_ids
        for schedule in self.fleet.schedules:
            edit = edits.get((ids.get(schedule.target, UNSAVED_ID), schedule.name))
            if edit is not None:
                items.append(self._describe_edit(edit))
            elif schedule.id in added:
                items.append(_describe_addition(schedule, self.now))
        items += [self._describe_removal(key) for key in self.removals]
        items += self._describe_targets(items)
        items += self._describe_budgets()
        return tuple(items)

    @cached_property
    def runs_before(self) -> float:
        """Runs per day of the whole fleet, as it is stored."""
        return sum(self._stored_runs_per_day(key) for key in self.stored.schedules)

    @cached_property
    def runs_after(self) -> float:
        """The same after the apply."""
        after = sum(
            _estimate_runs_per_day(build_spec(schedule), self.now, is_enabled=schedule.enabled)
            for schedule in self.fleet.schedules
        )
        ids = self.stored.target_ids
        desired = {(ids.get(schedule.target, UNSAVED_ID), schedule.name) for schedule in self.fleet.schedules}
        return after + sum(
            self._stored_runs_per_day(key) for key in self.stored.schedules.keys() - desired - set(self.removals)
        )

    def _describe_edit(self, edit: ScheduleEdit) -> PlannedChange:
        schedule, after = edit.desired.schedule, edit.desired.row
        before = self.stored.snapshots[edit.id]
        snapshot = replace_spec(before, schedule)
        before_data, after_data = diff_schedule(edit.before, readable_spec(before), after, snapshot.plan)
        return PlannedChange(
            what=ChangeKind.EDIT,
            subject=schedule.label,
            before=before_data,
            after=after_data,
            next_before=before.next_run_at,
            next_after=reschedule_edited(self.now, before, snapshot, self.stored.tallies[edit.id]).next_run_at,
            warnings=(*_warn_ownership_change(edit.before, after), *_warn_clamped_hints(self.now, before, snapshot)),
        )

    def _describe_removal(self, key: ScheduleKey) -> PlannedChange:
        number, row = self.stored.schedules[key]
        snapshot = self.stored.snapshots[number]
        subject, next_before = display_name(snapshot.label.rpartition("/")[0], row.name), snapshot.next_run_at
        return PlannedChange(what=ChangeKind.REMOVE, subject=subject, next_before=next_before, runs=snapshot.runs)

    def _describe_targets(self, items: list[PlannedChange]) -> Iterator[PlannedChange]:
        """Targets that differ themselves, and those that come or go without a schedule of their own."""
        mentioned = {(item.what, item.subject.rpartition("/")[0] or item.subject) for item in items}
        new_kinds = {row.name: row.kind for row in self.new_targets}
        edits = {edit.after.name: edit for edit in self.target_edits}
        for name in [target.name for target in self.fleet.targets]:
            if name in new_kinds and (ChangeKind.ADD, name) not in mentioned:
                yield PlannedChange(what=ChangeKind.ADD, subject=name, after={"kind": new_kinds[name]})
            elif name in edits and (changed := diff_target(edits[name].before, edits[name].after)):
                yield PlannedChange(what=ChangeKind.EDIT, subject=name, after=changed)
        for name in self.removed_targets:
            if (ChangeKind.REMOVE, name) not in mentioned:
                yield PlannedChange(what=ChangeKind.REMOVE, subject=name)

    def _describe_budgets(self) -> Iterator[PlannedChange]:
        for edit in self._list_stored_budget_edits():
            before, after = edit.describe()
            yield PlannedChange(what=ChangeKind.EDIT, subject=edit.name, before=before, after=after)

    def _list_stored_budget_edits(self) -> list[BudgetEdit]:
        """Return the shared budgets that differ, without those of a target that is new or gone: it has its own line."""
        kept_subjects = {FLEET_SUBJECT, *(each.name for each in self.fleet.targets if each.name in self.stored.targets)}
        return [edit for edit in self.budget_edits if edit.name in kept_subjects]

    def _stored_runs_per_day(self, key: ScheduleKey) -> float:
        snapshot = self.stored.snapshots[self.stored.schedules[key][0]]
        return _estimate_runs_per_day(snapshot.plan, self.now, is_enabled=snapshot.enabled)


def plan_apply(
    tx: Transaction | None, fleet: Fleet, now: datetime, *, is_whole: bool = True, has_snapshots: bool = False
) -> ApplyPlan:
    """Compare a fleet with the ledger; None is a ledger that does not exist yet. Writes nothing.

    What the fleet lacks is removed, unless it was made by hand, or the fleet is not the whole one, or not sound: a file
    that is broken may hold it, and its last good version stays. `items` needs `has_snapshots`.
    """
    stored = StoredFleet() if tx is None else load_stored_fleet(tx, has_snapshots=has_snapshots)
    removes, ids = is_whole and fleet.is_sound, stored.target_ids
    plan = ApplyPlan(stored=stored, fleet=fleet, now=now)
    plan.budget_edits.extend(diff_budgets(fleet, stored.budgets, ids, is_whole=removes))
    _plan_targets(plan)
    desired_schedules = _build_desired(tx, fleet.schedules, ids)
    _plan_schedules(plan, desired_schedules)
    if removes:
        desired_keys = {(desired.row.target_id, desired.row.name) for desired in desired_schedules}
        managed = [key for key, (_, row) in stored.schedules.items() if not is_unmanaged(row.origin)]
        plan.removals.extend(key for key in managed if key not in desired_keys)
        # A target whose schedules stay is kept: they would have nothing to run.
        kept_ids = {target_id for target_id, _ in stored.schedules.keys() - set(plan.removals)}
        names = {target.name for target in fleet.targets}
        for name, (number, row) in stored.targets.items():
            if name not in names and number not in kept_ids and not is_unmanaged(row.origin):
                plan.removed_targets.append(name)
    return plan


def load_stored_fleet(tx: Transaction, *, has_snapshots: bool = False) -> StoredFleet:
    """Return what the ledger has of the fleet. Its old secrets are redacted from now on: plans show what was before."""
    register_secrets(tx.old_secrets())  # what is stored is shown as "before"
    targets = tx.targets()
    target_ids = [number for number, _ in targets.values()]
    schedules, budgets = tx.schedule_list_by_target(target_ids), tx.budgets(target_ids)
    ids = [number for number, _ in schedules.values()] if has_snapshots else []
    snapshots, tallies = (tx.schedules(ids), tx.schedule_count_open(ids)) if ids else ({}, {})
    return StoredFleet(targets=targets, schedules=schedules, budgets=budgets, snapshots=snapshots, tallies=tallies)


def diff_budgets(
    fleet: Fleet, stored: Mapping[BudgetOwner, Budget], target_ids: Mapping[str, int], *, is_whole: bool
) -> Iterator[BudgetEdit]:
    """Yield the shared budgets that differ. A whole fleet removes those of targets it lacks; a part does not."""
    desired: dict[str, Budget | None] = {target.name: target.budget for target in fleet.targets}
    if is_whole:
        desired = dict.fromkeys(target_ids) | desired | {FLEET_SUBJECT: fleet.budget}
    for name, new in desired.items():
        old = stored.get(budget_owner(name, target_ids))
        if old != new:
            yield BudgetEdit(name, old, new)


def budget_owner(name: str, target_ids: Mapping[str, int]) -> BudgetOwner:
    if name == FLEET_SUBJECT:
        return FLEET_OWNER
    return BudgetOwner(BudgetScope.TARGET, target_ids.get(name, UNSAVED_ID))


def _plan_targets(plan: ApplyPlan) -> None:
    for target in plan.fleet.targets:
        spec, origin = _to_canonical_json(target.spec), str(target.origin or "")
        hooks = _to_canonical_json(target.hooks) if target.hooks else ""
        row = TargetRow(target.name, target.kind, spec, origin, target.max_concurrent, hooks)
        number, before = plan.stored.targets.get(target.name, (UNSAVED_ID, None))
        if before is None:
            plan.new_targets.append(row)
        elif before != row:
            plan.target_edits.append(TargetEdit(number, before, row))


def _plan_schedules(plan: ApplyPlan, desired_schedules: Iterable[DesiredSchedule]) -> None:
    for desired in desired_schedules:
        row = desired.row
        number, before = plan.stored.schedules.get((row.target_id, row.name), (UNSAVED_ID, None))
        if before is None:
            plan.additions.append(desired)
        elif before == row:
            continue
        elif before._replace(origin=row.origin) == row:
            # The same at another line of the files, or in a file at last, as after an export: nothing is decided again.
            # Taken for an edit, a schedule from the API lost its backoff, and a file that changes nothing had changes.
            plan.moves.append((number, row.origin))
        else:
            plan.edits.append(ScheduleEdit(number, before, desired))


def _build_desired(
    tx: Transaction | None, schedules: Sequence[Schedule], target_ids: Mapping[str, int]
) -> list[DesiredSchedule]:
    texts = [_to_canonical_json(build_spec(schedule)) for schedule in schedules]
    plan_ids = {} if tx is None else tx.plan_find_many(texts)
    desired_schedules = []
    for schedule, text in zip(schedules, texts, strict=True):
        target_id, plan_id = target_ids.get(schedule.target, UNSAVED_ID), plan_ids.get(text, UNSAVED_ID)
        desired_schedules.append(DesiredSchedule(schedule, text, _schedule_row(schedule, target_id, plan_id)))
    return desired_schedules


def _schedule_row(schedule: Schedule, target_id: int, plan_id: int) -> ScheduleRow:
    run_spec = RunSpec(**{name: getattr(schedule, name) for name in _RUN_SPEC_FIELDS})
    brief, origin = _to_canonical_json(run_spec), str(schedule.origin or "")
    return ScheduleRow(target_id, schedule.name, schedule.trigger.kind, plan_id, brief, origin, schedule.enabled)


_RUN_SPEC_FIELDS = tuple(each.name for each in fields(RunSpec))


def _to_canonical_json(value: object) -> str:
    """Equal values have equal texts: schedules whose plans have one text share one stored plan."""
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True)


def _describe_addition(schedule: Schedule, now: datetime) -> PlannedChange:
    next_run_at = decide(now, ScheduleState.fresh(schedule, now)).next_run_at
    facts = {"when": schedule.trigger.describe(), "timezone": schedule.policies.zone.key, "enabled": schedule.enabled}
    return PlannedChange(what=ChangeKind.ADD, subject=schedule.label, after=facts, next_after=next_run_at)


def _warn_ownership_change(before: ScheduleRow, after: ScheduleRow) -> Iterator[str]:
    if is_unmanaged(before.origin) and not is_unmanaged(after.origin):
        yield f"created by {before.origin}; now defined by {after.origin}"


def _warn_clamped_hints(now: datetime, before: ScheduleSnapshot, snapshot: ScheduleSnapshot) -> Iterator[str]:
    old, new = before.plan.policies.limits, snapshot.plan.policies.limits
    for hint in before.hints:
        if hint.every is None or not hint.is_active(now):
            continue
        old_every, new_every = old.clamp(hint.every), new.clamp(hint.every)
        if old_every != new_every:
            hint_every = format_duration(hint.every)
            yield f"the active hint by {hint.origin} (every {hint_every}) becomes {format_duration(new_every)}"


def _estimate_runs_per_day(plan: ScheduleSpec, now: datetime, *, is_enabled: bool) -> float:
    return estimate_runs_per_day(plan.timing, now) if is_enabled else 0.0
