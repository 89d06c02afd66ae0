"""A store full of schedules, put there without a fleet file: a million of them in a minute."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.codec import to_json
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import CallableSpec, TargetSpec
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.serialization import decision_to_json
from herdbeat.store.base import NextRunColumns, ScheduleRow, TargetRow, Transaction
from herdbeat.store.location import StoreHandle
from herdbeat.triggers.interval import Interval

NOTHING = CallableSpec(call="bench.load.stock:nothing")
"""The target of most measurements: what is measured is herdbeat, so it takes no time."""

CHUNK = 10_000
"""Schedules of one transaction."""


async def nothing() -> None:
    """What is run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """So many schedules that say the same. Each has a target of its own, unless they share one of so much room.

    The first instants lie evenly in the time of `spread` from `first_at` on.
    """

    name: str
    count: int
    first_at: datetime
    every: timedelta
    spread: timedelta = timedelta(0)
    spec: TargetSpec = NOTHING
    shared_room: int | None = None

    def first_of(self, number: int) -> datetime:
        return self.first_at + self.spread * number / self.count


def put(store: StoreHandle, lot: Lot, now: datetime, tell: Callable[[int], None] | None = None) -> None:
    """Write the lot down; `tell` hears how many are there already."""
    plan = ScheduleSpec(trigger=Interval(lot.every), policies=_policies())
    for numbers in _chunks(lot.count):
        store.write_now(lambda tx, numbers=numbers: _put(tx, lot, plan, numbers, now))  # type: ignore[misc]
        if tell is not None:
            tell(numbers.stop)


def _put(tx: Transaction, lot: Lot, plan: ScheduleSpec, numbers: range, now: datetime) -> None:
    text = _text(plan)
    plan_id = tx.plan_upsert_many([text])[text]
    targets = _targets(tx, lot, numbers)
    standing = _decided(lot, plan, now)
    brief = _text({})
    rows = []
    for number in numbers:
        first_at = lot.first_of(number)
        name = DEFAULT_SCHEDULE_NAME if lot.shared_room is None else f"s{number}"
        row = ScheduleRow(targets[number - numbers.start], name, "interval", plan_id, brief, "", enabled=True)
        rows.append((row, standing._replace(next_run_at=first_at, next_due_at=first_at, wake_at=first_at)))
    tx.add_schedules(rows, now)


def _targets(tx: Transaction, lot: Lot, numbers: range) -> list[int]:
    """The target's id of each schedule."""
    spec = _text(lot.spec)
    if lot.shared_room is None:
        names = [f"{lot.name}-{number}" for number in numbers]
        return tx.add_targets([TargetRow(name, lot.spec.kind, spec, "", 1) for name in names])
    (number,) = tx.add_targets([TargetRow(lot.name, lot.spec.kind, spec, "", lot.shared_room)])
    return [number] * len(numbers)


def _decided(lot: Lot, plan: ScheduleSpec, now: datetime) -> NextRunColumns:
    """A decision with a trace as long as any, so that rows are as large as real ones."""
    schedule = Schedule(target=lot.name, name=DEFAULT_SCHEDULE_NAME, trigger=plan.trigger, policies=plan.policies)
    decision = decide(now, ScheduleState.fresh(schedule, now))
    trace = _text(decision_to_json(decision))
    return NextRunColumns(decision.next_run_at, decision.due_at, decision.source, "", trace, decision.wake_at)


def _policies() -> Policies:
    return Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE)


def _chunks(count: int) -> Iterator[range]:
    for start in range(0, count, CHUNK):
        yield range(start, min(start + CHUNK, count))


def _text(value: object) -> str:
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True)
