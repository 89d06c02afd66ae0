"""Rows of the ledger, read as records: what a question about beats, runs, schedules and nodes is answered with."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.budget import BudgetOwner, BudgetScope
from herdbeat.domain.change import Change, ChangeData, ChangeKind
from herdbeat.domain.codec import from_json
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Budget, Catchup, Policies
from herdbeat.domain.records import BeatRecord, HintRecord, NodeRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import RunSpec, display_name
from herdbeat.domain.target import SPEC_TYPES, TargetSpec
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import HerdbeatError
from herdbeat.store.microseconds import from_micros
from herdbeat.triggers import Delay, Manual, load_trigger

# Rows about changes and hints, read. Apart from what writes them: who only looks must not load the writer's side.


def read_change(row: Sequence[Any]) -> Change:
    number, at, who, what, subject, before, after = row
    return Change(
        id=number,
        at=from_micros(at),
        who=who,
        what=ChangeKind(what),
        subject=subject,
        before=_read_change_data(before),
        after=_read_change_data(after),
    )


def read_hint(row: Sequence[Any]) -> HintRecord:
    number, target, name, origin, every, at, reason, expires_at, created_at, ended_at, ended_by = row
    return HintRecord(
        id=number,
        schedule=display_name(target, name),
        origin=origin,
        every=None if every is None else timedelta(microseconds=every),
        at=from_micros(at),
        reason=reason,
        expires_at=from_micros(expires_at),
        created_at=from_micros(created_at),
        ended_at=from_micros(ended_at),
        ended_by=ended_by or "",
    )


def _read_change_data(text: str | None) -> ChangeData | None:
    found: ChangeData | None = None if text is None else json.loads(text)
    return found


# Stored plans and shared budgets, read again; and what stands in for a plan that cannot be read any more.


PLACEHOLDER_PLAN = ScheduleSpec(
    trigger=Manual(),
    policies=Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.SKIP),
)
"""A plan without a time: whoever overlooks that the real one is unreadable starts nothing by it."""


class UnreadablePlan(Exception):
    """A stored plan is damaged, or names a zone that this machine does not have."""


def read_plan(text: str) -> ScheduleSpec:
    """Raises UnreadablePlan."""
    try:
        return from_json(ScheduleSpec, json.loads(text), load_trigger)
    except Exception as error:  # whatever is wrong with one plan, the other schedules must be readable
        raise UnreadablePlan(_describe_error(error)) from error


def read_budgets(rows: Iterable[tuple[str, int, str]]) -> dict[BudgetOwner, Budget]:
    return {BudgetOwner(BudgetScope(scope), number): _read_budget(text) for scope, number, text in rows}


@lru_cache(maxsize=10_000)
def _read_budget(text: str) -> Budget:
    """Asked at every claim, and mostly the same."""
    return from_json(Budget, json.loads(text), load_trigger)


def apply_arm(plan: ScheduleSpec, arm: int) -> ScheduleSpec:
    """A one-shot that was armed again fires under another id. Plans are shared, so the arm is the schedule's own."""
    if arm == 1 or not isinstance(plan.trigger, Delay):
        return plan
    return replace(plan, trigger=replace(plan.trigger, arm=arm))


def describe_read_error(error: Exception) -> str:
    reason = str(error) if isinstance(error, UnreadablePlan) else _describe_error(error)
    return f"its stored plan cannot be read ({reason})"


def _describe_error(error: Exception) -> str:
    return error.message if isinstance(error, HerdbeatError) else f"{type(error).__name__}: {error}"


def read_gaps(rows: Iterable[Sequence[Any]]) -> list[Gap]:
    return [
        Gap(from_at=from_micros(start), until=from_micros(until), reason=MissedReason(reason))
        for start, until, reason in rows
    ]


def read_node(row: Any) -> NodeRecord:
    number, host, pid, version, *times, labels, works, running = row
    started, seen, stopped, lease_until = (from_micros(micros) for micros in times)
    return NodeRecord(
        id=number,
        host=host,
        pid=pid,
        version=version,
        started_at=started,
        seen_at=seen,
        stopped_at=stopped,
        labels=tuple(json.loads(labels)),
        lease_until=lease_until,
        works=bool(works),
        running=running,
    )


# Thousands of schedules say the same: each text is read once.
@lru_cache(maxsize=1_000)
def read_run_spec(text: str) -> RunSpec:
    return from_json(RunSpec, json.loads(text), load_trigger)


@lru_cache(maxsize=1_000)
def read_target_spec(kind: str, text: str) -> TargetSpec:
    return from_json(SPEC_TYPES[kind], json.loads(text), load_trigger)


def read_beat(row: Any) -> BeatRecord:
    return BeatRecord(
        id=row[0],
        schedule=display_name(row[1], row[2]),
        due_at=from_micros(row[3]),
        last_due_at=from_micros(row[4]),
        count=row[5],
        outcome=BeatOutcome(row[6]),
        reason=row[7],
        source=Source(row[8]),
        origin=row[9],
        dedup_id=row[10],
        settled_at=from_micros(row[11]),
        runs=tuple(json.loads(row[12])),
        last_status=RunStatus(row[13]) if row[13] else None,
    )


def read_run(row: Any) -> RunRecord:
    return RunRecord(
        id=row[0],
        schedule=display_name(row[1], row[2]),
        beat_id=row[3],
        attempt=row[4],
        status=RunStatus(row[5]),
        claimed_at=from_micros(row[6]),
        started_at=from_micros(row[7]),
        finished_at=from_micros(row[8]),
        code=row[9],
        error=row[10],
        summary=row[11],
        log=row[12],
        source=Source(row[13]),
        origin=row[14],
        due_at=from_micros(row[15]),
        dedup_id=row[16],
        note=row[17] or "",
    )


def read_schedule(row: Any) -> ScheduleRecord:
    plan, unreadable = _read_plan_or_placeholder(row[3])
    return ScheduleRecord(
        id=row[0],
        target=row[1],
        name=row[2],
        plan=plan,
        origin=row[4],
        enabled=bool(row[5]),
        disabled_by=row[6],
        quarantine=row[7] or unreadable,
        next_run_at=from_micros(row[8]),
        next_due_at=from_micros(row[9]),
        next_source=Source(row[10]) if row[10] else None,
        next_origin=row[11],
        next_trace=row[12],
        anchor_at=from_micros(row[13]),
        is_new=bool(row[14]),
        failures=row[15],
        running=row[16],
        waiting=row[17],
        paused=bool(row[18]),
        paused_until=from_micros(row[19]),
        paused_by=row[20],
        paused_reason=row[21],
        last_started_at=from_micros(row[22]),
        last_run_at=from_micros(row[23]),
        last_status=RunStatus(row[24]) if row[24] else None,
        last_error=row[25],
        target_room=row[26],
        target_running=row[27],
        skips=row[28],
        skips_by=row[29],
        skips_reason=row[30],
        runs=row[31],
    )


@lru_cache(maxsize=4_096)
def _read_plan_or_placeholder(text: str) -> tuple[ScheduleSpec, str | None]:
    """A plan, or what stands in for it and why. A listing of ten thousand schedules reads a handful of texts."""
    try:
        return read_plan(text), None
    except UnreadablePlan as error:
        return PLACEHOLDER_PLAN, describe_read_error(error)
