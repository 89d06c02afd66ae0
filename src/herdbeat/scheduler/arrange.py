"""From a fleet to the ledger: what is new, what has changed, what has gone."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from herdbeat.domain.brief import Brief
from herdbeat.domain.change import Change, Facts, What
from herdbeat.domain.codec import to_json
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.origin import is_by_hand
from herdbeat.domain.plan import Plan
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import Conflict
from herdbeat.governor import ScheduleState, decide
from herdbeat.scheduler.differences import edit_of, target_edit_of
from herdbeat.scheduler.handover import is_another_calendar, remove, settle_before
from herdbeat.scheduler.judge import is_due, is_reached, state_of
from herdbeat.scheduler.shared_budgets import WHOLE_FLEET, arrange_budgets
from herdbeat.scheduler.verdict import trace_of
from herdbeat.store.base import ScheduleRow, Standing, Tally, TargetRow, Timed, Transaction

Rows = Mapping[tuple[int, str], tuple[int, ScheduleRow]]
"""The schedules of a ledger by target and name, with their ids."""


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
    before = tx.targets()
    record = Record(now, who, reason)
    ids = _arrange_targets(tx, fleet.targets, before, record)
    names = {number: name for name, (number, _) in before.items()}
    removes = is_whole and fleet.is_sound
    for name, was, will in arrange_budgets(tx, fleet, {name: number for number, name in names.items()} | ids, removes):
        if name in before or name == WHOLE_FLEET:
            record.note(What.EDIT, name, before={"budget": was}, after={"budget": will})
    stored = tx.schedules_of(names)
    wanted = dict(_wanted(tx, fleet.schedules, {name: number for number, name in names.items()} | ids))
    arranged = Arranged()
    arranged.added = _add(tx, now, [wanted[key] for key in wanted if key not in stored], record)
    differing = [(*stored[key], *wanted[key]) for key in wanted if key in stored and stored[key][1] != wanted[key][1]]
    edits = [each for each in differing if not is_only_moved(each[1], each[3])]
    tx.move_schedules([(number, row.origin) for number, old, _, row in differing if is_only_moved(old, row)])
    arranged.changed = _edit(tx, now, edits, record, fleet)
    gone = gone_from(stored, wanted) if removes else []
    remove(tx, now, [stored[key][0] for key in gone], fleet.lease)
    arranged.removed = [f"{names[target]}/{name}" for target, name in gone]
    for label in arranged.removed:
        record.note(What.REMOVE, label)
    kept = {target for target, _ in stored.keys() - set(gone)}
    empty = gone_targets(before, ids, kept) if removes else []
    tx.remove_targets([before[name][0] for name in empty], now)
    for name in empty:
        record.note(What.REMOVE, name)
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


def is_only_moved(stored: ScheduleRow, row: ScheduleRow) -> bool:
    """The same at another line: nothing to decide again, and nothing to tell."""
    return stored._replace(origin=row.origin) == row and is_by_hand(stored.origin) == is_by_hand(row.origin)


def gone_from(stored: Rows, wanted: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """What the files had, and have no more. What somebody made by hand was never in them."""
    left = stored.keys() - set(wanted)
    return [key for key, (_, row) in stored.items() if key in left and not is_by_hand(row.origin)]


def gone_targets(
    before: Mapping[str, tuple[int, TargetRow]], wanted: Iterable[str], kept: Collection[int]
) -> list[str]:
    """The same for targets. One whose schedules stay is kept: they would have nothing to run."""
    left = before.keys() - set(wanted)
    gone = [(name, *before[name]) for name in before if name in left]
    return [name for name, number, row in gone if number not in kept and not is_by_hand(row.origin)]


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
    texts = [(each, plan_text(Plan(trigger=each.trigger, policies=each.policies))) for each in schedules]
    plans = tx.plans(text for _, text in texts)
    rows = [(each, schedule_row(each, ids[each.target], plans[text])) for each, text in texts]
    return [((row.target_id, row.name), (each, row)) for each, row in rows]


def _add(tx: Transaction, now: datetime, new: list[tuple[Schedule, ScheduleRow]], record: Record) -> list[str]:
    tx.add_schedules([(row, _timed(now, ScheduleState.fresh(each, now))) for each, row in new], now)
    told: dict[int, Facts] = {}  # thousands of schedules share a plan, and telling a cron takes its time
    for each, row in new:
        if row.plan_id not in told:
            told[row.plan_id] = {"when": each.trigger.describe()}
        record.note(What.ADD, each.id, after=told[row.plan_id])
    return [each.label for each, _ in new]


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
    leaving = [(standings[number], _plan(each)) for number, _, each, _ in edits]
    standings |= settle_before(tx, now, leaving, fleet.lease, fleet.catchup_rate)
    tallies = tx.tallies(numbers)
    rows = []
    armed = []
    for number, stored, each, row in edits:
        before = standings[number]
        standing = replanned(before, each)
        was, will = edit_of(stored, _readable(before), row, standing.plan)
        if will:
            record.note(What.EDIT, each.id, before=was, after=will)
        if _is_another_moment(_readable(before), standing.plan):
            armed.append(number)
        rows.append((number, row, edited_time(now, before, standing, tallies[number])))
    tx.edit_schedules(rows, now)
    tx.arm_again(armed)
    return [each.label for _, _, each, _ in edits]


def replanned(before: Standing, schedule: Schedule) -> Standing:
    """How a schedule would stand with what is written of it now."""
    plan = _plan(schedule)
    is_on = schedule.enabled and before.disabled_by is None
    standing = before._replace(plan=plan, enabled=is_on, quarantine=None, unreadable=None)
    # A one-shot with another time is another one-shot, also if the first has fired.
    return standing._replace(is_new=True) if _is_another_moment(_readable(before), plan) else standing


def _plan(schedule: Schedule) -> Plan:
    return Plan(trigger=schedule.trigger, policies=schedule.policies)


def edited_time(now: datetime, before: Standing, standing: Standing, tally: Tally) -> Timed:
    """When an edited schedule is due next. `before` is how it stood, `standing` the same with its new plan."""
    is_on = standing.enabled and before.enabled and before.unreadable is None
    is_left = is_on and is_due(now, before) and is_another_calendar(before.plan, standing.plan)
    if is_on and not is_left and is_reached(now, before):
        # Due, and not yet claimed: that beat comes first, and its claim decides by the new plan.
        return _kept(before)
    # By another calendar the claim would count instants that never were: what is due is settled first, and waits.
    tally = tally._replace(open=tally.open + int(is_left))
    timed = _timed(now, state_of(standing))
    if _is_at_it(standing, tally):
        # Decided now, it would be due beside the beat it is at, and under the same id. Its finish decides.
        return timed._replace(next_run_at=None, next_due_at=None, wake_at=None)
    return timed


def _readable(standing: Standing) -> Plan | None:
    return standing.plan if standing.unreadable is None else None


def _is_another_moment(old: Plan | None, new: Plan) -> bool:
    if old is None or TriggerKind.DELAY not in (old.trigger.kind, new.trigger.kind):
        return False
    return old.trigger.options().get("run_at") != new.trigger.options().get("run_at")


def _kept(standing: Standing) -> Timed:
    assert standing.next_source is not None
    return Timed(
        next_run_at=standing.next_run_at,
        next_due_at=standing.next_due_at,
        next_source=standing.next_source,
        next_origin=standing.next_origin,
        next_trace=None,
        wake_at=standing.wake_at,
    )


def _is_at_it(standing: Standing, tally: Tally) -> bool:
    """An interval has no next time while one of its own beats is running, waiting, or to be retried."""
    is_running = tally.running > 0 and standing.next_run_at is None
    return standing.plan.trigger.pace is not None and (tally.open > 0 or is_running)


def _timed(now: datetime, state: ScheduleState) -> Timed:
    decision = decide(now, state)
    return Timed(
        next_run_at=decision.next_run_at,
        next_due_at=decision.due_at,
        next_source=decision.source,
        next_origin=decision.origin,
        next_trace=trace_of(decision),
        wake_at=decision.wake_at,
    )


def target_row(target: Target) -> TargetRow:
    return TargetRow(
        name=target.name,
        kind=target.kind,
        spec=_text(target.spec),
        origin=str(target.origin or ""),
        max_concurrent=target.max_concurrent,
    )


def schedule_row(schedule: Schedule, target_id: int, plan_id: int) -> ScheduleRow:
    brief = Brief(
        prompt=schedule.prompt,
        work_source=schedule.work_source,
        resume_session=schedule.resume_session,
        output_to_file=schedule.output_to_file,
    )
    return ScheduleRow(
        target_id=target_id,
        name=schedule.name,
        kind=schedule.trigger.kind,
        plan_id=plan_id,
        brief=_text(brief),
        origin=str(schedule.origin or ""),
        enabled=schedule.enabled,
    )


def plan_text(plan: Plan) -> str:
    """A plan as it is stored: those of one text share one row."""
    return _text(plan)


def _text(value: object) -> str:
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True)
