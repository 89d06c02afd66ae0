"""From a fleet to the ledger: what is new, what has changed, what has gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from herdbeat.domain.change import Change, ChangeData, ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import Conflict
from herdbeat.governor import ScheduleState
from herdbeat.scheduler.apply.budgets import FLEET_SUBJECT, apply_budgets
from herdbeat.scheduler.apply.diff import diff_schedule, diff_target
from herdbeat.scheduler.apply.reschedule import (
    build_spec,
    decide_next_run,
    has_run_at_changed,
    readable_spec,
    replace_spec,
    reschedule_edited,
)
from herdbeat.scheduler.apply.rows import (
    StoredSchedules,
    is_only_moved,
    list_removed_schedules,
    list_removed_targets,
    schedule_row,
    serialize_spec,
    target_row,
)
from herdbeat.scheduler.apply.settle import remove_schedules, settle_due_instants
from herdbeat.store.base import ScheduleRow, TargetRow, Transaction

DesiredSchedules = Mapping[tuple[int, str], tuple[Schedule, ScheduleRow]]
"""The schedules of a fleet by target and name, as they would be stored."""


@dataclass(slots=True)
class ChangeLog:
    """What goes into the record of changes."""

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
    """What an apply did, by label."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def apply_fleet(
    tx: Transaction, fleet: Fleet, now: datetime, who: str = "up", *, is_whole: bool = True, reason: str = ""
) -> ApplyResult:
    """Make the ledger hold this fleet. What stays the same keeps its time; what is edited is decided again.

    What is not in it is removed, unless somebody made it by hand, or the fleet is not the whole one, or not sound:
    what is missing may be what is broken, and its last good version goes on. Everything that differs goes into the
    record of changes, as done by `who`, with the reason if there is one.
    """
    if is_whole:
        _require_fleet_name(fleet.name, tx.fleet_claim_name(fleet.name))
    removes = is_whole and fleet.is_sound
    change_log = ChangeLog(now, who, reason)
    before = tx.targets()
    ids = _apply_targets(tx, fleet.targets, before, change_log)
    numbers = {name: number for name, (number, _) in before.items()} | ids
    for name, before_data, after_data in apply_budgets(tx, fleet, numbers, removes):
        if name in before or name == FLEET_SUBJECT:
            change_log.add_change(ChangeKind.EDIT, name, before={"budget": before_data}, after={"budget": after_data})
    stored = tx.schedule_list_by_target(number for number, _ in before.values())
    desired = dict(_build_desired(tx, fleet.schedules, numbers))
    result = ApplyResult()
    result.added = _add_schedules(tx, now, [desired[key] for key in desired if key not in stored], change_log)
    result.changed = _update_schedules(tx, now, stored, desired, change_log, fleet)
    if removes:
        removed_keys = list_removed_schedules(stored, desired)
        remove_schedules(tx, now, [stored[key][0] for key in removed_keys], fleet.lease)
        names = {number: name for name, number in numbers.items()}
        result.removed = [f"{names[target]}/{name}" for target, name in removed_keys]
        kept = {target for target, _ in stored.keys() - set(removed_keys)}
        removed_targets = list_removed_targets(before, ids, kept)
        tx.remove_targets([before[name][0] for name in removed_targets], now)
        for subject in (*result.removed, *removed_targets):
            change_log.add_change(ChangeKind.REMOVE, subject)
    tx.add_changes(change_log.changes)
    return result


def require_same_fleet(tx: Transaction, name: str) -> None:
    """Raises Conflict if the store holds another fleet, or none yet."""
    owner = tx.fleet_name()
    if owner is None:
        hint = "Do so once, on any node: herdbeat apply, or herdbeat up --apply"
        raise Conflict("No fleet was applied to this store yet.", hint=hint)
    _require_fleet_name(name, owner)


def _require_fleet_name(name: str, owner: str) -> None:
    if owner != name:
        hint = "One store holds one fleet. Use another database, or give this fleet that name (fleet: name:)."
        raise Conflict(f'This store holds the fleet "{owner}", not "{name}".', hint=hint)


def _apply_targets(
    tx: Transaction, targets: Iterable[Target], before: Mapping[str, tuple[int, TargetRow]], change_log: ChangeLog
) -> dict[str, int]:
    """The id of every target of the fleet."""
    rows = {target.name: target_row(target) for target in targets}
    new = [row for name, row in rows.items() if name not in before]
    ids = dict(zip((row.name for row in new), tx.add_targets(new), strict=True))
    known = {name: before[name] for name in rows if name in before}
    edited = [(number, rows[name]) for name, (number, row) in known.items() if row != rows[name]]
    tx.change_targets(edited)
    kinds: dict[str, ChangeData] = {row.kind: {"kind": row.kind} for row in new}
    for row in new:
        change_log.add_change(ChangeKind.ADD, row.name, after=kinds[row.kind])
    for _, row in edited:
        if facts := diff_target(before[row.name][1], row):
            change_log.add_change(ChangeKind.EDIT, row.name, after=facts)
    return ids | {name: number for name, (number, _) in known.items()}


def _build_desired(
    tx: Transaction, schedules: Iterable[Schedule], ids: Mapping[str, int]
) -> list[tuple[tuple[int, str], tuple[Schedule, ScheduleRow]]]:
    texts = [(each, serialize_spec(build_spec(each))) for each in schedules]
    plans = tx.plan_upsert_many(text for _, text in texts)
    rows = [(each, schedule_row(each, ids[each.target], plans[text])) for each, text in texts]
    return [((row.target_id, row.name), (each, row)) for each, row in rows]


def _add_schedules(
    tx: Transaction, now: datetime, new: list[tuple[Schedule, ScheduleRow]], change_log: ChangeLog
) -> list[str]:
    tx.add_schedules([(row, decide_next_run(now, ScheduleState.fresh(each, now))) for each, row in new], now)
    facts: dict[int, ChangeData] = {}  # thousands of schedules share a plan, and telling a cron takes its time
    for each, row in new:
        if row.plan_id not in facts:
            facts[row.plan_id] = {"when": each.trigger.describe()}
        change_log.add_change(ChangeKind.ADD, each.id, after=facts[row.plan_id])
    return [each.label for each, _ in new]


def _update_schedules(
    tx: Transaction,
    now: datetime,
    stored: StoredSchedules,
    desired: DesiredSchedules,
    change_log: ChangeLog,
    fleet: Fleet,
) -> list[str]:
    differing = [
        (*stored[key], *desired[key]) for key in desired if key in stored and stored[key][1] != desired[key][1]
    ]
    tx.schedule_update_origin([(number, row.origin) for number, old, _, row in differing if is_only_moved(old, row)])
    return _edit_schedules(
        tx, now, [each for each in differing if not is_only_moved(each[1], each[3])], change_log, fleet
    )


def _edit_schedules(
    tx: Transaction,
    now: datetime,
    edits: list[tuple[int, ScheduleRow, Schedule, ScheduleRow]],
    change_log: ChangeLog,
    fleet: Fleet,
) -> list[str]:
    if not edits:
        return []
    numbers = [number for number, _, _, _ in edits]
    snapshots = tx.schedules(numbers)
    replacements = [(snapshots[number], build_spec(each)) for number, _, each, _ in edits]
    snapshots |= settle_due_instants(tx, now, replacements, fleet.lease, fleet.catchup_rate)
    tallies = tx.schedule_count_open(numbers)
    rows = []
    rearmed_ids = []
    for number, stored, each, row in edits:
        before = snapshots[number]
        snapshot = replace_spec(before, each)
        before_data, after_data = diff_schedule(stored, readable_spec(before), row, snapshot.plan)
        if after_data:
            change_log.add_change(ChangeKind.EDIT, each.id, before=before_data, after=after_data)
        if has_run_at_changed(readable_spec(before), snapshot.plan):
            rearmed_ids.append(number)
        rows.append((number, row, reschedule_edited(now, before, snapshot, tallies[number])))
    tx.edit_schedules(rows, now)
    tx.schedule_rearm(rearmed_ids)
    return [each.label for _, _, each, _ in edits]
