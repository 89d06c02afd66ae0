"""Bulk insert of schedules into a store without a fleet file: a million of them in a minute."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.codec import to_json
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import CallableSpec, TargetSpec
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.state import decision_to_json
from herdbeat.store.base import NextRunColumns, ScheduleRow, TargetRow, Transaction
from herdbeat.store.location import StoreHandle
from herdbeat.triggers.interval import Interval

NOOP_SPEC = CallableSpec(call="bench.load.bulk_insert:noop")
"""The target of most measurements. It takes no time, because the scheduler is what is measured."""

SCHEDULES_PER_TRANSACTION = 10_000
"""Schedules per transaction."""


async def noop() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBatch:
    """`count` equal schedules. Each has a target of its own, unless `shared_capacity` makes them share one.

    Their first instants are evenly spread over `spread`, starting at `first_at`.
    """

    name: str
    count: int
    first_at: datetime
    every: timedelta
    spread: timedelta = timedelta(0)
    spec: TargetSpec = NOOP_SPEC
    shared_capacity: int | None = None
    adapt: tuple[Mapping[str, object], ...] = ()

    def first_due_at(self, number: int) -> datetime:
        return self.first_at + self.spread * number / self.count


def insert_schedules(
    store: StoreHandle, batch: ScheduleBatch, now: datetime, on_progress: Callable[[int], None] | None = None
) -> None:
    """Insert the batch. `on_progress` is called with the number of schedules so far."""
    plan = ScheduleSpec(trigger=Interval(batch.every), policies=replace(_policies(), adapt=batch.adapt))
    for numbers in _chunks(batch.count):
        store.write_now(lambda tx, numbers=numbers: _insert(tx, batch, plan, numbers, now))  # type: ignore[misc]
        if on_progress is not None:
            on_progress(numbers.stop)


def _insert(tx: Transaction, batch: ScheduleBatch, plan: ScheduleSpec, numbers: range, now: datetime) -> None:
    text = _text(plan)
    plan_id = tx.plan_upsert_many([text])[text]
    targets = _insert_targets(tx, batch, numbers)
    columns = _decide_columns(batch, plan, now)
    brief = _text({})
    rows = []
    for number in numbers:
        first_at = batch.first_due_at(number)
        name = DEFAULT_SCHEDULE_NAME if batch.shared_capacity is None else f"s{number}"
        row = ScheduleRow(targets[number - numbers.start], name, "interval", plan_id, brief, "", enabled=True)
        rows.append((row, columns._replace(next_run_at=first_at, next_due_at=first_at, wake_at=first_at)))
    tx.add_schedules(rows, now)


def _insert_targets(tx: Transaction, batch: ScheduleBatch, numbers: range) -> list[int]:
    """Insert the targets, and return the target id of each schedule."""
    spec = _text(batch.spec)
    if batch.shared_capacity is None:
        names = [f"{batch.name}-{number}" for number in numbers]
        return tx.add_targets([TargetRow(name, batch.spec.kind, spec, "", 1) for name in names])
    (number,) = tx.add_targets([TargetRow(batch.name, batch.spec.kind, spec, "", batch.shared_capacity)])
    return [number] * len(numbers)


def _decide_columns(batch: ScheduleBatch, plan: ScheduleSpec, now: datetime) -> NextRunColumns:
    """Decide once, with a complete trace, so that rows are as large as real ones."""
    schedule = Schedule(target=batch.name, name=DEFAULT_SCHEDULE_NAME, trigger=plan.trigger, policies=plan.policies)
    decision = decide(now, ScheduleState.fresh(schedule, now))
    trace = _text(decision_to_json(decision))
    return NextRunColumns(decision.next_run_at, decision.due_at, decision.source, "", trace, decision.wake_at)


def _policies() -> Policies:
    return Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE)


def _chunks(count: int) -> Iterator[range]:
    for start in range(0, count, SCHEDULES_PER_TRANSACTION):
        yield range(start, min(start + SCHEDULES_PER_TRANSACTION, count))


def _text(value: object) -> str:
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True)
