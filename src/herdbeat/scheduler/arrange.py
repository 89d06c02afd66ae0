"""From a fleet to the ledger: what is new, what has changed, what has gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from herdbeat.domain.change import Change, Facts, What
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import Conflict
from herdbeat.governor import ScheduleState
from herdbeat.scheduler.differences import edit_of, target_edit_of
from herdbeat.scheduler.fleet_rows import (
    Rows,
    gone_from,
    gone_targets,
    is_only_moved,
    plan_text,
    schedule_row,
    target_row,
)
from herdbeat.scheduler.handover import remove, settle_before
from herdbeat.scheduler.replan import edited_time, is_another_moment, plan_of, readable_plan, replanned, time_of
from herdbeat.scheduler.shared_budgets import WHOLE_FLEET, arrange_budgets
from herdbeat.store.base import ScheduleRow, TargetRow, Transaction

Wanted = Mapping[tuple[int, str], tuple[Schedule, ScheduleRow]]
"""The schedules of a fleet by target and name, as they would be stored."""


@dataclass(slots=True)
class Record:
    """What goes into the record of changes."""

    now: datetime
    who: str
    reason: str = ""
    changes: list[Change] = field(default_factory=list)

    def note(self, what: What, subject: str, before: Facts | None = None, after: Facts | None = None) -> None:
        if self.reason:
            after = {**(after or {}), "reason": self.reason}
        self.changes.append(Change(at=self.now, who=self.who, what=what, subject=subject, before=before, after=after))


@dataclass(slots=True)
class Arranged:
    """What an apply did, by label."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def arrange(
    tx: Transaction, fleet: Fleet, now: datetime, who: str = "up", *, is_whole: bool = True, reason: str = ""
) -> Arranged:
    """Make the ledger hold this fleet. What stays the same keeps its time; what is edited is decided again.

    What is not in it is removed, unless somebody made it by hand, or the fleet is not the whole one, or not sound:
    what is missing may be what is broken, and its last good version goes on. Everything that differs goes into the
    record of changes, as done by `who`, with the reason if there is one.
    """
    if is_whole:
        _refuse_others(fleet.name, tx.take_fleet_name(fleet.name))
    removes = is_whole and fleet.is_sound
    record = Record(now, who, reason)
    before = tx.targets()
    ids = _arrange_targets(tx, fleet.targets, before, record)
    numbers = {name: number for name, (number, _) in before.items()} | ids
    for name, was, will in arrange_budgets(tx, fleet, numbers, removes):
        if name in before or name == WHOLE_FLEET:
            record.note(What.EDIT, name, before={"budget": was}, after={"budget": will})
    stored = tx.schedules_of(number for number, _ in before.values())
    wanted = dict(_wanted(tx, fleet.schedules, numbers))
    arranged = Arranged()
    arranged.added = _add(tx, now, [wanted[key] for key in wanted if key not in stored], record)
    arranged.changed = _change(tx, now, stored, wanted, record, fleet)
    if removes:
        gone = gone_from(stored, wanted)
        remove(tx, now, [stored[key][0] for key in gone], fleet.lease)
        names = {number: name for name, number in numbers.items()}
        arranged.removed = [f"{names[target]}/{name}" for target, name in gone]
        kept = {target for target, _ in stored.keys() - set(gone)}
        empty = gone_targets(before, ids, kept)
        tx.remove_targets([before[name][0] for name in empty], now)
        for subject in (*arranged.removed, *empty):
            record.note(What.REMOVE, subject)
    tx.add_changes(record.changes)
    return arranged


def refuse_strangers(tx: Transaction, name: str) -> None:
    """Raises Conflict if the store holds another fleet, or none yet."""
    owner = tx.fleet_name()
    if owner is None:
        hint = "Do so once, on any node: herdbeat apply, or herdbeat up --apply"
        raise Conflict("No fleet was applied to this store yet.", hint=hint)
    _refuse_others(name, owner)


def _refuse_others(name: str, owner: str) -> None:
    if owner != name:
        hint = "One store holds one fleet. Use another database, or give this fleet that name (fleet: name:)."
        raise Conflict(f'This store holds the fleet "{owner}", not "{name}".', hint=hint)


def _arrange_targets(
    tx: Transaction, targets: Iterable[Target], before: Mapping[str, tuple[int, TargetRow]], record: Record
) -> dict[str, int]:
    """The id of every target of the fleet."""
    rows = {target.name: target_row(target) for target in targets}
    new = [row for name, row in rows.items() if name not in before]
    ids = dict(zip((row.name for row in new), tx.add_targets(new), strict=True))
    known = {name: before[name] for name in rows if name in before}
    edited = [(number, rows[name]) for name, (number, row) in known.items() if row != rows[name]]
    tx.change_targets(edited)
    kinds: dict[str, Facts] = {row.kind: {"kind": row.kind} for row in new}
    for row in new:
        record.note(What.ADD, row.name, after=kinds[row.kind])
    for _, row in edited:
        if told := target_edit_of(before[row.name][1], row):
            record.note(What.EDIT, row.name, after=told)
    return ids | {name: number for name, (number, _) in known.items()}


def _wanted(
    tx: Transaction, schedules: Iterable[Schedule], ids: Mapping[str, int]
) -> list[tuple[tuple[int, str], tuple[Schedule, ScheduleRow]]]:
    texts = [(each, plan_text(plan_of(each))) for each in schedules]
    plans = tx.plans(text for _, text in texts)
    rows = [(each, schedule_row(each, ids[each.target], plans[text])) for each, text in texts]
    return [((row.target_id, row.name), (each, row)) for each, row in rows]


def _add(tx: Transaction, now: datetime, new: list[tuple[Schedule, ScheduleRow]], record: Record) -> list[str]:
    tx.add_schedules([(row, time_of(now, ScheduleState.fresh(each, now))) for each, row in new], now)
    told: dict[int, Facts] = {}  # thousands of schedules share a plan, and telling a cron takes its time
    for each, row in new:
        if row.plan_id not in told:
            told[row.plan_id] = {"when": each.trigger.describe()}
        record.note(What.ADD, each.id, after=told[row.plan_id])
    return [each.label for each, _ in new]


def _change(tx: Transaction, now: datetime, stored: Rows, wanted: Wanted, record: Record, fleet: Fleet) -> list[str]:
    differing = [(*stored[key], *wanted[key]) for key in wanted if key in stored and stored[key][1] != wanted[key][1]]
    tx.move_schedules([(number, row.origin) for number, old, _, row in differing if is_only_moved(old, row)])
    return _edit(tx, now, [each for each in differing if not is_only_moved(each[1], each[3])], record, fleet)


def _edit(
    tx: Transaction,
    now: datetime,
    edits: list[tuple[int, ScheduleRow, Schedule, ScheduleRow]],
    record: Record,
    fleet: Fleet,
) -> list[str]:
    if not edits:
        return []
    numbers = [number for number, _, _, _ in edits]
    standings = tx.schedules(numbers)
    leaving = [(standings[number], plan_of(each)) for number, _, each, _ in edits]
    standings |= settle_before(tx, now, leaving, fleet.lease, fleet.catchup_rate)
    tallies = tx.tallies(numbers)
    rows = []
    armed = []
    for number, stored, each, row in edits:
        before = standings[number]
        standing = replanned(before, each)
        was, will = edit_of(stored, readable_plan(before), row, standing.plan)
        if will:
            record.note(What.EDIT, each.id, before=was, after=will)
        if is_another_moment(readable_plan(before), standing.plan):
            armed.append(number)
        rows.append((number, row, edited_time(now, before, standing, tallies[number])))
    tx.edit_schedules(rows, now)
    tx.arm_again(armed)
    return [each.label for _, _, each, _ in edits]
