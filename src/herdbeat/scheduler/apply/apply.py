"""Apply a fleet to the ledger: execute the plan of what is new, what has changed, and what is removed."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.budget import BudgetScope
from herdbeat.domain.change import Change, ChangeData, ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.fleet import Fleet, list_fleet_variables
from herdbeat.domain.target import is_unmanaged
from herdbeat.errors import Conflict
from herdbeat.executors.base import is_remote
from herdbeat.governor import ScheduleState
from herdbeat.redaction import find_secrets, register_secrets
from herdbeat.scheduler.apply.diff import diff_schedule, diff_target
from herdbeat.scheduler.apply.plan import FLEET_SUBJECT, ApplyPlan, budget_owner, plan_apply
from herdbeat.scheduler.apply.reschedule import (
    build_spec,
    decide_next_run,
    find_removed_rules,
    is_rearmed,
    readable_spec,
    replace_spec,
    reschedule_edited,
)
from herdbeat.scheduler.apply.settle import remove_schedules, settle_due_instants
from herdbeat.scheduler.control import begin_hold, reset
from herdbeat.scheduler.older_nodes import require_gate
from herdbeat.scheduler.planned_pauses import resolve_selections
from herdbeat.store.base import Gate, ScheduleSnapshot, Transaction


@dataclass(slots=True)
class ChangeLog:
    """Collects the entries for the record of changes."""

    now: datetime
    who: str
    reason: str = ""
    changes: list[Change] = field(default_factory=list)

    def add_change(
        self, what: ChangeKind, subject: str, before: ChangeData | None = None, after: ChangeData | None = None
    ) -> None:
        if self.reason:
            after = {**(after or {}), "reason": self.reason}
        self.changes.append(Change(at=self.now, who=self.who, what=what, subject=subject, before=before, after=after))


@dataclass(slots=True)
class ApplyResult:
    """What an apply did, by label. `targets` are the targets and shared budgets that changed themselves."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)


def apply_fleet(
    tx: Transaction, fleet: Fleet, now: datetime, who: str = "up", *, is_whole: bool = True, reason: str = ""
) -> ApplyResult:
    """Make the ledger hold this fleet: plan and execute, in one transaction.

    Raises Conflict if the store holds another fleet.
    """
    if is_whole:
        _require_fleet_name(fleet.name, tx.fleet_claim_name(fleet.name))
    if any(is_remote(target.spec) for target in fleet.targets):
        require_gate(tx, Gate.EXECUTOR, "Upgrade all nodes first; older ones would run it themselves.")
    names = list_fleet_variables(fleet)
    if names:
        require_gate(tx, Gate.REFERENCE, "Upgrade all nodes first; older ones cannot put its value in.")
    plan = plan_apply(tx, fleet, now, is_whole=is_whole)
    _write_variables(tx, plan, names, is_whole=is_whole and fleet.is_sound)
    if is_whole and fleet.is_sound:
        tx.set_prices(fleet.prices)
    result = execute_plan(tx, plan, who, reason)
    if is_whole and fleet.is_sound:
        tx.delete_old_secrets()
    return result


def execute_plan(tx: Transaction, plan: ApplyPlan, who: str, reason: str = "") -> ApplyResult:
    """Write a plan that was made in this transaction. What stays the same keeps its time; edits are decided again.

    Everything that differs goes into the record of changes, as done by `who`, with the reason if there is one.
    """
    change_log = ChangeLog(plan.now, who, reason)
    target_ids = plan.stored.target_ids | _write_targets(tx, plan, change_log)
    _write_budgets(tx, plan, target_ids, change_log)
    all_desired = (*plan.additions, *(edit.desired for edit in plan.edits))
    plan_ids = tx.plan_upsert_many(desired.plan_text for desired in all_desired)
    result = ApplyResult()
    result.added = _add_schedules(tx, plan, target_ids, plan_ids, change_log)
    tx.schedule_update_origin(plan.moves)
    result.changed = _edit_schedules(tx, plan, plan_ids, change_log)
    result.removed = _remove_schedules(tx, plan, change_log)
    result.targets = plan.list_changed_targets()
    _forget_failures(tx, plan)
    if result.added or result.changed:
        resolve_selections(tx, plan.now)
    tx.add_changes(change_log.changes)
    return result


def _write_variables(tx: Transaction, plan: ApplyPlan, names: Collection[str], *, is_whole: bool) -> None:
    """Store the names of variables, for processes that read this ledger and have values of them."""
    by_hand = [json.loads(row.spec) for _, row in plan.stored.targets.values() if is_unmanaged(row.origin)]
    register_secrets(secret for spec in by_hand for secret in find_secrets(spec))
    tx.set_variables({*names, *(name for spec in by_hand for name in spec.get("variables", ()))}, is_whole=is_whole)


def _forget_failures(tx: Transaction, plan: ApplyPlan) -> None:
    """Failures of the old configuration do not delay the new one: neither by backoff nor by the wait for a retry."""
    edited_ids = {edit.id for edit in plan.edits}
    target_ids = {edit.id for edit in plan.target_edits if diff_target(edit.before, edit.after)}
    removed = set(plan.removals)
    shared_ids = {
        number
        for key, (number, row) in plan.stored.schedules.items()
        if row.target_id in target_ids and key not in removed and number not in edited_ids
    }
    for snapshot in tx.schedules(shared_ids).values() if shared_ids else ():
        if snapshot.failures:
            reset(tx, plan.now, snapshot.id)
    corrected_ids = edited_ids | shared_ids
    pending = tx.beat_list_pending_by_schedule(corrected_ids) if corrected_ids else []
    if retries := [beat.id for beat in pending if beat.reason == Source.RETRY]:
        tx.wake_beats(retries, plan.now)


def require_same_fleet(tx: Transaction, name: str) -> None:
    """Raises Conflict if the store holds another fleet, or none yet."""
    owner = tx.fleet_name()
    if owner is None:
        hint = "Apply it on any node: herdbeat apply, or herdbeat up --apply"
        raise Conflict("No fleet has been applied to this store yet.", hint=hint)
    _require_fleet_name(name, owner)


def _require_fleet_name(name: str, owner: str) -> None:
    if owner != name:
        hint = "A store holds one fleet. Use another database, or set fleet: name: to that name."
        raise Conflict(f'This store holds the fleet "{owner}", not "{name}".', hint=hint)


def _write_targets(tx: Transaction, plan: ApplyPlan, change_log: ChangeLog) -> dict[str, int]:
    """Return the ids of the new targets."""
    new_ids = tx.add_targets(plan.new_targets)
    tx.change_targets([(edit.id, edit.after) for edit in plan.target_edits])
    kinds: dict[str, ChangeData] = {row.kind: {"kind": row.kind} for row in plan.new_targets}
    for row in plan.new_targets:
        change_log.add_change(ChangeKind.ADD, row.name, after=kinds[row.kind])
    for edit in plan.target_edits:
        if facts := diff_target(edit.before, edit.after):
            change_log.add_change(ChangeKind.EDIT, edit.after.name, after=facts)
    return dict(zip((row.name for row in plan.new_targets), new_ids, strict=True))


def _write_budgets(tx: Transaction, plan: ApplyPlan, target_ids: Mapping[str, int], change_log: ChangeLog) -> None:
    # A target that was removed and comes back has its old id, and may find its old budget there.
    returned = tx.budgets(target_ids[row.name] for row in plan.new_targets) if tx.rare_gates().has_budgets else {}
    leftovers = dict.fromkeys(owner for owner in returned if owner.scope is BudgetScope.TARGET)
    tx.set_budgets(leftovers | {budget_owner(edit.name, target_ids): edit.after for edit in plan.budget_edits})
    for edit in plan.budget_edits:
        if edit.name in plan.stored.targets or edit.name == FLEET_SUBJECT:
            before, after = edit.describe()
            change_log.add_change(ChangeKind.EDIT, edit.name, before=before, after=after)


def _add_schedules(
    tx: Transaction, plan: ApplyPlan, target_ids: Mapping[str, int], plan_ids: Mapping[str, int], change_log: ChangeLog
) -> list[str]:
    rows = []
    facts: dict[str, ChangeData] = {}  # thousands of schedules share a plan, and describing a cron takes its time
    for schedule, plan_text, row in plan.additions:
        stored_row = row._replace(target_id=target_ids[schedule.target], plan_id=plan_ids[plan_text])
        rows.append((stored_row, decide_next_run(plan.now, ScheduleState.fresh(schedule, plan.now))))
        if plan_text not in facts:
            facts[plan_text] = {"when": schedule.trigger.describe()}
        change_log.add_change(ChangeKind.ADD, schedule.id, after=facts[plan_text])
    tx.add_schedules(rows, plan.now)
    return [desired.schedule.label for desired in plan.additions]


def _edit_schedules(tx: Transaction, plan: ApplyPlan, plan_ids: Mapping[str, int], change_log: ChangeLog) -> list[str]:
    if not plan.edits:
        return []
    now, fleet = plan.now, plan.fleet
    snapshots = tx.schedules([edit.id for edit in plan.edits])
    snapshots |= _hold_disabled(tx, plan, snapshots)
    replacements = [(snapshots[edit.id], build_spec(edit.desired.schedule)) for edit in plan.edits]
    snapshots |= settle_due_instants(tx, now, replacements, fleet.lease, fleet.catchup_rate)
    tallies = tx.schedule_count_open(snapshots)
    rows, rearmed_ids = [], []
    for number, stored_row, (schedule, plan_text, row) in plan.edits:
        before = snapshots[number]
        snapshot = replace_spec(before, schedule)
        before_data, after_data = diff_schedule(stored_row, readable_spec(before), row, snapshot.plan)
        if after_data:
            change_log.add_change(ChangeKind.EDIT, schedule.id, before=before_data, after=after_data)
        if is_rearmed(before, snapshot):
            rearmed_ids.append(number)
        if before.failures:
            tx.schedule_reset_failures(number)
        if gone := find_removed_rules(before, snapshot.plan):
            tx.hint_end_by_rank(number, sorted(gone), now, change_log.who)
        next_run = reschedule_edited(now, before, snapshot, tallies[number])
        rows.append((number, row._replace(plan_id=plan_ids[plan_text]), next_run))
    tx.edit_schedules(rows, now)
    tx.schedule_rearm(rearmed_ids)
    return [edit.desired.schedule.label for edit in plan.edits]


def _hold_disabled(
    tx: Transaction, plan: ApplyPlan, snapshots: Mapping[int, ScheduleSnapshot]
) -> Mapping[int, ScheduleSnapshot]:
    """Skip what is due or waits of schedules that the files disable, and return those as they are then.

    Otherwise a queued beat would start although it is off, and what came due since the last claim would be in no row.
    """
    ids = [edit.id for edit in plan.edits if snapshots[edit.id].enabled and not edit.desired.schedule.enabled]
    for schedule_id in ids:
        begin_hold(tx, plan.now, schedule_id, SkipReason.DISABLED)
    return tx.schedules(ids) if ids else {}


def _remove_schedules(tx: Transaction, plan: ApplyPlan, change_log: ChangeLog) -> list[str]:
    stored = plan.stored
    remove_schedules(tx, plan.now, [stored.schedules[key][0] for key in plan.removals], plan.fleet.lease)
    names = {number: name for name, number in stored.target_ids.items()}
    removed = [f"{names[target_id]}/{name}" for target_id, name in plan.removals]
    tx.remove_targets([stored.targets[name][0] for name in plan.removed_targets], plan.now)
    for subject in (*removed, *plan.removed_targets):
        change_log.add_change(ChangeKind.REMOVE, subject)
    return removed
