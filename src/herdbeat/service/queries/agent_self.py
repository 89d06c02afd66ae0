"""What an agent can know of itself: its run, its schedule, what it asked for, and what limits it."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.agent_tools import AgentHint, RunReport
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.policies import Policies
from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.domain.target import CreatedVia
from herdbeat.durations import format_duration
from herdbeat.errors import NotFound
from herdbeat.scheduler.agent_hints import day_start, min_wake_distance
from herdbeat.service.queries.gates import GateStatus, evaluate_gates, load_gate_context
from herdbeat.service.serialize import JsonObject, serialize_gate
from herdbeat.store.reader import Filter, Reader
from herdbeat.timestamps import format_optional_timestamp, format_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSelf:
    """An agent's view of itself. `note` is its own, from the wake that this run is the answer to."""

    now: datetime
    schedule: ScheduleRecord
    run: RunRecord | None
    note: str
    report: RunReport | None
    hints: tuple[AgentHint, ...]
    wakes_left: int
    budgets: tuple[GateStatus, ...]
    created: tuple[ScheduleRecord, ...] = ()


def load_agent_self(reader: Reader, schedule_id: int, run_id: int, now: datetime) -> AgentSelf:
    """Raises NotFound if the schedule no longer exists."""
    record = next(iter(reader.schedules_by_id([schedule_id])), None)
    if record is None:
        raise NotFound("The schedule no longer exists.", hint="It was removed from the fleet.")
    policies = record.plan.policies
    gates = evaluate_gates(record, load_gate_context(reader, record, now, has_live_node=True), now)
    used = reader.count_wakes(schedule_id, day_start(now, policies.zone))
    return AgentSelf(
        now=now,
        schedule=record,
        run=next(iter(reader.runs(Filter(run=run_id, limit=1))), None) if run_id else None,
        note=reader.wake_note(run_id) if run_id else "",
        report=reader.run_report(run_id) if run_id else None,
        hints=tuple(reader.agent_hints(schedule_id, now)),
        wakes_left=max(0, policies.wakes_per_day - used),
        budgets=tuple(each for each in gates if each.gate.startswith("budget") and each.most is not None),
        created=tuple(each for each in reader.schedules(Filter(target=record.target)) if each.origin == CreatedVia.MCP),
    )


def serialize_agent_self(view: AgentSelf) -> JsonObject:
    """`limits` are those that no request can pass. Keys without a value are left out: a model pays for each word."""
    record, policies, run = view.schedule, view.schedule.plan.policies, view.run
    answer: JsonObject = {
        "agent": record.target,
        "schedule": record.label,
        "runs": record.plan.trigger.describe(),
        "now": format_timestamp(view.now),
        "timezone": policies.zone.key,
        "run": None if run is None else _serialize_own_run(run),
        "your_note": view.note or None,
        "next_run_at": format_optional_timestamp(record.next_run_at),
        "wakes": [_serialize_wake(each) for each in view.hints if each.at is not None],
        "pace": next((_serialize_pace(each) for each in view.hints if each.every is not None), None),
        "limits": _serialize_limits(policies, view.wakes_left),
        "budget": [serialize_gate(each) for each in view.budgets],
        "paused": {"by": record.paused_by, "reason": record.paused_reason} if record.paused else None,
        "reported": view.report is not None,
        "created_schedules": [_serialize_created(each) for each in view.created],
    }
    return {key: value for key, value in answer.items() if value not in (None, [], "")}


def _serialize_limits(policies: Policies, wakes_left: int) -> JsonObject:
    limits = {"min_interval": policies.limits.at_least, "max_interval": policies.limits.at_most}
    return {
        "earliest_wake": format_duration(min_wake_distance(policies)),
        "wakes_left_today": wakes_left,
        **{key: format_duration(each) for key, each in limits.items() if each is not None},
    }


def _serialize_created(record: ScheduleRecord) -> JsonObject:
    ends_at = format_optional_timestamp(record.plan.policies.bounds.ends_at)
    return {"name": record.name, "runs": record.plan.trigger.describe(), "expires_at": ends_at}


def _serialize_own_run(run: RunRecord) -> JsonObject:
    return {
        "id": format_short_id(run.id),
        "attempt": run.attempt,
        "due_at": format_timestamp(run.due_at),
        "source": str(run.source),
        "caused_by": run.origin or None,
    }


def _serialize_wake(hint: AgentHint) -> JsonObject:
    return {"id": hint.id, "at": format_optional_timestamp(hint.at), "note": hint.note, "reason": hint.reason}


def _serialize_pace(hint: AgentHint) -> JsonObject:
    assert hint.every is not None
    every, until = format_duration(hint.every), format_timestamp(hint.expires_at)
    return {"id": hint.id, "every": every, "until": until, "reason": hint.reason}
