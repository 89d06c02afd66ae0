"""What an apply would do, without doing it: the same comparison as `arrange`, on a ledger that is only read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from herdbeat.domain.change import Facts, What
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.origin import is_by_hand
from herdbeat.domain.plan import Plan
from herdbeat.domain.policies import Budget
from herdbeat.domain.schedule import Schedule, label_of
from herdbeat.domain.spend import Holder
from herdbeat.durations import format_duration
from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.rate import limited, runs_per_day
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
from herdbeat.scheduler.replan import edited_time, replanned
from herdbeat.scheduler.shared_budgets import WHOLE_FLEET, budget_edits
from herdbeat.store.base import ScheduleRow, Standing, Tally, TargetRow, Transaction
from herdbeat.triggers import Delay


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What would become of one schedule; of a target, if only that differs. `runs` are those that history keeps."""

    what: What
    subject: str
    before: Facts = field(default_factory=dict)
    after: Facts = field(default_factory=dict)
    next_before: datetime | None = None
    next_after: datetime | None = None
    runs: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The plan of an apply, in file order, then what is removed. Runs are per day, of the whole fleet."""

    items: tuple[Foreseen, ...]
    runs_before: float
    runs_after: float

    def count(self, what: What) -> int:
        return sum(each.what is what for each in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All that a plan needs of a ledger. An empty one is a ledger that is not there yet."""

    targets: Mapping[str, tuple[int, TargetRow]] = field(default_factory=dict)
    schedules: Rows = field(default_factory=dict)
    standings: Mapping[int, Standing] = field(default_factory=dict)
    tallies: Mapping[int, Tally] = field(default_factory=dict)
    budgets: Mapping[Holder, Budget] = field(default_factory=dict)


def read_stored(tx: Transaction) -> Stored:
    """Reads only."""
    targets = tx.targets()
    schedules = tx.schedules_of(number for number, _ in targets.values())
    ids = [number for number, _ in schedules.values()]
    return Stored(
        targets=targets,
        schedules=schedules,
        standings=tx.schedules(ids),
        tallies=tx.tallies(ids),
        budgets=tx.budgets(number for number, _ in targets.values()),
    )


def foresee(stored: Stored, fleet: Fleet, now: datetime, *, is_whole: bool = True) -> Foresight:
    """What `arrange` would do with this fleet at this moment."""
    ids = {name: number for name, (number, _) in stored.targets.items()}
    items, wanted, after = [], set(), 0.0
    for each in fleet.schedules:
        key = (ids.get(each.target, 0), each.name)
        wanted.add(key)
        after += _rate(Plan(trigger=each.trigger, policies=each.policies), now, is_on=each.enabled)
        items.append(_edited(stored, key, each, now) if key in stored.schedules else _added(each, now))
    gone = gone_from(stored.schedules, wanted) if is_whole else []
    left = stored.schedules.keys() - wanted - set(gone)
    items += [_removed(stored, key) for key in gone]
    found = [each for each in items if each is not None]
    found += _targets(stored, fleet, {target for target, _ in left}, found, is_whole=is_whole)
    found += _budgets(stored, fleet, ids, is_whole=is_whole)
    after += sum(_stored_rate(stored, key, now) for key in left)
    before = sum(_stored_rate(stored, key, now) for key in stored.schedules)
    return Foresight(items=tuple(found), runs_before=before, runs_after=after)


def _added(schedule: Schedule, now: datetime) -> Foreseen:
    following = decide(now, ScheduleState.fresh(schedule, now)).next_run_at
    told = {"when": schedule.trigger.describe(), "timezone": schedule.policies.zone.key, "enabled": schedule.enabled}
    return Foreseen(what=What.ADD, subject=schedule.label, after=told, next_after=following)


def _edited(stored: Stored, key: tuple[int, str], schedule: Schedule, now: datetime) -> Foreseen | None:
    number, row = stored.schedules[key]
    before = stored.standings[number]
    standing = replanned(before, schedule)
    is_same_plan = before.unreadable is None and plan_text(_as_written(before.plan)) == plan_text(standing.plan)
    new = schedule_row(schedule, key[0], row.plan_id if is_same_plan else 0)
    if new == row or is_only_moved(row, new):
        return None
    was, will = edit_of(row, before.plan if before.unreadable is None else None, new, standing.plan)
    return Foreseen(
        what=What.EDIT,
        subject=schedule.label,
        before=was,
        after=will,
        next_before=before.next_run_at,
        next_after=edited_time(now, before, standing, stored.tallies[number]).next_run_at,
        warnings=(*_taken_over(row, new), *_clamped(now, before, standing)),
    )


def _as_written(plan: Plan) -> Plan:
    """A one-shot that was armed again knows how often; no file says so."""
    return replace(plan, trigger=replace(plan.trigger, arm=1)) if isinstance(plan.trigger, Delay) else plan


def _taken_over(row: ScheduleRow, new: ScheduleRow) -> Iterator[str]:
    if is_by_hand(row.origin) and not is_by_hand(new.origin):
        yield f"it was made by {row.origin}; from now on {new.origin} says what it is"


def _clamped(now: datetime, before: Standing, standing: Standing) -> Iterator[str]:
    old, new = before.plan.policies.limits, standing.plan.policies.limits
    for hint in before.hints:
        if hint.every is None or not hint.is_active(now):
            continue
        was, will = limited(hint.every, old), limited(hint.every, new)
        if was != will:
            asked, becomes = format_duration(hint.every), format_duration(will)
            yield f"the active hint by {hint.origin} (every {asked}) becomes {becomes}"


def _removed(stored: Stored, key: tuple[int, str]) -> Foreseen:
    number, row = stored.schedules[key]
    standing = stored.standings[number]
    target = standing.label.rpartition("/")[0]
    return Foreseen(
        what=What.REMOVE,
        subject=label_of(target, row.name),
        next_before=standing.next_run_at,
        runs=standing.runs,
    )


def _targets(
    stored: Stored, fleet: Fleet, kept: set[int], items: list[Foreseen], *, is_whole: bool
) -> Iterator[Foreseen]:
    """Targets that differ themselves, and those that come or go without a schedule of their own."""
    told = {(each.what, each.subject.rpartition("/")[0] or each.subject) for each in items}
    for target in fleet.targets:
        row = target_row(target)
        known = stored.targets.get(target.name)
        if known is None and (What.ADD, target.name) not in told:
            yield Foreseen(what=What.ADD, subject=target.name, after={"kind": row.kind})
        elif known is not None and (changed := target_edit_of(known[1], row)):
            yield Foreseen(what=What.EDIT, subject=target.name, after=changed)
    names = [target.name for target in fleet.targets]
    for name in gone_targets(stored.targets, names, kept) if is_whole else []:
        if (What.REMOVE, name) not in told:
            yield Foreseen(what=What.REMOVE, subject=name)


def _budgets(stored: Stored, fleet: Fleet, ids: Mapping[str, int], *, is_whole: bool) -> Iterator[Foreseen]:
    """Shared ones that differ. Of a target that is new or gone, that line says enough."""
    staying = {WHOLE_FLEET, *(target.name for target in fleet.targets if target.name in stored.targets)}
    for edit in budget_edits(fleet, stored.budgets, ids, is_whole=is_whole):
        if edit.name in staying:
            before, after = {"budget": edit.before}, {"budget": edit.after}
            yield Foreseen(what=What.EDIT, subject=edit.name, before=before, after=after)


def _stored_rate(stored: Stored, key: tuple[int, str], now: datetime) -> float:
    standing = stored.standings[stored.schedules[key][0]]
    return _rate(standing.plan, now, is_on=standing.enabled)


def _rate(plan: Plan, now: datetime, *, is_on: bool) -> float:
    return runs_per_day(plan.timing, now) if is_on else 0.0
