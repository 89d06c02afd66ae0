"""From a fleet to the ledger: what is new, what has changed, what has gone."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from herdbeat.domain.brief import Brief
from herdbeat.domain.codec import to_json
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.plan import Plan
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.governor import ScheduleState, decide
from herdbeat.scheduler.control import settle_held
from herdbeat.scheduler.judge import is_due, state_of, trace_of
from herdbeat.store.base import ScheduleRow, Standing, Tally, TargetRow, Timed, Transaction


@dataclass(slots=True)
class Arranged:
    """What an apply did, by label."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def arrange(tx: Transaction, fleet: Fleet, now: datetime) -> Arranged:
    """Make the ledger hold this fleet. What stays the same keeps its time; what is edited is decided again."""
    before = tx.targets()
    ids = _arrange_targets(tx, fleet.targets, before)
    names = {number: name for name, (number, _) in before.items()}
    stored = tx.schedules_of(names)
    wanted = dict(_wanted(tx, fleet.schedules, ids))
    arranged = Arranged()
    arranged.added = _add(tx, now, [wanted[key] for key in wanted if key not in stored])
    edits = [(stored[key][0], *wanted[key]) for key in wanted if key in stored and stored[key][1] != wanted[key][1]]
    arranged.changed = _edit(tx, now, edits)
    gone = [key for key in stored if key not in wanted]
    tx.remove_schedules([stored[key][0] for key in gone], now)
    arranged.removed = [f"{names[target]}/{name}" for target, name in gone]
    tx.remove_targets([number for name, (number, _) in before.items() if name not in ids], now)
    return arranged


def _arrange_targets(
    tx: Transaction, targets: Iterable[Target], before: Mapping[str, tuple[int, TargetRow]]
) -> dict[str, int]:
    """The id of every target of the fleet."""
    rows = {target.name: _target_row(target) for target in targets}
    new = [row for name, row in rows.items() if name not in before]
    ids = dict(zip((row.name for row in new), tx.add_targets(new), strict=True))
    known = {name: before[name] for name in rows if name in before}
    tx.change_targets([(number, rows[name]) for name, (number, row) in known.items() if row != rows[name]])
    return ids | {name: number for name, (number, _) in known.items()}


def _wanted(
    tx: Transaction, schedules: Iterable[Schedule], ids: Mapping[str, int]
) -> list[tuple[tuple[int, str], tuple[Schedule, ScheduleRow]]]:
    texts = [(each, _text(Plan(trigger=each.trigger, policies=each.policies))) for each in schedules]
    plans = tx.plans(text for _, text in texts)
    rows = [(each, _schedule_row(each, ids[each.target], plans[text])) for each, text in texts]
    return [((row.target_id, row.name), (each, row)) for each, row in rows]


def _add(tx: Transaction, now: datetime, new: list[tuple[Schedule, ScheduleRow]]) -> list[str]:
    tx.add_schedules([(row, _timed(now, ScheduleState.fresh(each, now))) for each, row in new], now)
    return [each.label for each, _ in new]


def _edit(tx: Transaction, now: datetime, edits: list[tuple[int, Schedule, ScheduleRow]]) -> list[str]:
    numbers = [number for number, _, _ in edits]
    standings, tallies = (tx.schedules(numbers), tx.tallies(numbers)) if edits else ({}, {})
    settle_held(tx, now, standings.values())
    rows = []
    for number, each, row in edits:
        plan = Plan(trigger=each.trigger, policies=each.policies)
        before = standings[number]
        is_on = each.enabled and before.disabled_by is None
        standing = before._replace(plan=plan, enabled=is_on, quarantine=None, unreadable=None)
        timed = _timed(now, state_of(standing))
        if is_on and before.enabled and before.unreadable is None and is_due(now, before):
            # Due, and not yet claimed: that beat comes first, and its claim decides by the new plan.
            timed = _kept(before)
        elif _is_at_it(standing, tallies[number]):
            # Decided now, it would be due beside the beat it is at, and under the same id. Its finish decides.
            timed = timed._replace(next_run_at=None, next_due_at=None, wake_at=None)
        rows.append((number, row, timed))
    tx.edit_schedules(rows, now)
    return [each.label for _, each, _ in edits]


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
    is_open = tally.running > 0 or tally.open > 0
    return standing.plan.trigger.pace is not None and standing.next_run_at is None and is_open


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


def _target_row(target: Target) -> TargetRow:
    return TargetRow(
        name=target.name,
        kind=target.kind,
        spec=_text(target.spec),
        origin=str(target.origin or ""),
        max_concurrent=target.max_concurrent,
    )


def _schedule_row(schedule: Schedule, target_id: int, plan_id: int) -> ScheduleRow:
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


def _text(value: object) -> str:
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True)
