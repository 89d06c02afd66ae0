"""Everything about one thing: a target, a schedule, a run or a beat, whichever a word means."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.brief import RunSpec
from herdbeat.domain.ids import parse_short_id
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.spend import BudgetOwner, BudgetScope
from herdbeat.domain.target import Target
from herdbeat.service.coming import preview_runs
from herdbeat.service.hints import HintState, HintView, build_hint, classify_hints, serialize_hint
from herdbeat.service.listing import ScheduleSummary, no_such_name, summarize_schedules
from herdbeat.service.objects import (
    JsonObject,
    format_optional_timestamp,
    serialize_beat,
    serialize_run,
    serialize_schedule,
)
from herdbeat.service.policy_words import PolicyValue, describe_policies, format_budget
from herdbeat.service.questions import find_run
from herdbeat.service.selecting import split_selector
from herdbeat.store.looking import QueryReader, ScheduleQuery
from herdbeat.store.reader import Filter

MAX_SHOWN_RUNS = 5
MAX_TARGET_SCHEDULES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    target: Target
    written_at: str
    running: int
    schedules: tuple[ScheduleSummary, ...]
    budget: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A schedule as it stands. `instants` are its next times, as far as they can be known."""

    summary: ScheduleSummary
    target: Target
    brief: RunSpec
    policies: tuple[PolicyValue, ...]
    instants: tuple[datetime, ...]
    hints: tuple[HintView, ...]
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run, the beat it was an attempt at, and the other attempts at it."""

    run: RunRecord
    beat: BeatRecord
    attempts: tuple[RunRecord, ...]
    details: RunDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatView:
    beat: BeatRecord
    runs: tuple[RunRecord, ...]


DetailView = TargetView | ScheduleView | RunView | BeatView


def find_details(reader: QueryReader, selector: str, now: datetime) -> DetailView:
    """A name before an id, a run before a beat. Raises NotFound, which guesses."""
    kind, colon, number = selector.partition(":")
    if colon and kind in ("run", "beat"):
        return _find_by_id(reader, selector, number, is_beat=kind == "beat")
    target, name = split_selector(selector)
    named = reader.find(ScheduleQuery(now=now, names=(f"{target}/{name or '*'}",), limit=MAX_TARGET_SCHEDULES))
    single = next((each for each in named if name or each.name == DEFAULT_SCHEDULE_NAME), None)
    if single is not None:
        return _build_schedule_view(reader, single, now)
    if named:
        return _build_target_view(reader, target, named, now)
    return _find_by_id(reader, selector, selector, is_beat=False)


def _find_by_id(reader: QueryReader, selector: str, text: str, *, is_beat: bool) -> RunView | BeatView:
    """By its id: a run, unless a beat is meant or no run has it."""
    run = None if is_beat else find_run(reader, text)
    if run is not None:
        return _build_run_view(reader, run)
    number = parse_short_id(text)
    beat = reader.beat(number) if number and number < 1 << 62 else None
    if beat is None or selector.startswith("run:"):
        raise no_such_name(reader, selector)
    return BeatView(beat=beat, runs=_find_attempts(reader, beat))


def _build_target_view(
    reader: QueryReader, name: str, schedules: Sequence[ScheduleRecord], now: datetime
) -> TargetView:
    found = reader.find_target(name)
    assert found is not None, f"{name}: schedules without their target"
    number, written_at, running = found
    holder = BudgetOwner(BudgetScope.TARGET, number)
    return TargetView(
        target=reader.targets([number])[number],
        written_at=written_at,
        running=running,
        schedules=tuple(summarize_schedules(reader, list(schedules), now)),
        budget=format_budget(budget) if (budget := reader.budgets(schedules[0].id).get(holder)) is not None else "",
    )


def _build_schedule_view(reader: QueryReader, record: ScheduleRecord, now: datetime) -> ScheduleView:
    found = reader.find_target(record.target)
    assert found is not None, f"{record.label}: a schedule without its target"
    target = reader.targets([found[0]])[found[0]]
    hints = tuple(classify_hints(reader.hints([record.id], ended_since=now), now))
    shared = {holder.scope: budget for holder, budget in reader.budgets(record.id).items()}
    active_hints = [build_hint(each.record) for each in hints if each.state in (HintState.ACTIVE, HintState.SHADOWED)]
    return ScheduleView(
        summary=summarize_schedules(reader, [record], now)[0],
        target=target,
        brief=reader.run_specs([record.id])[record.id],
        policies=tuple(describe_policies(record.plan.policies, record.plan.trigger.kind, target.kind, shared)),
        instants=preview_runs(record, active_hints, now).instants,
        hints=hints,
        runs=tuple(reader.runs(Filter(target=record.target, name=record.name, limit=MAX_SHOWN_RUNS))),
    )


def _build_run_view(reader: QueryReader, run: RunRecord) -> RunView:
    beat = reader.beat(run.beat_id)
    assert beat is not None, f"run {run.id}: it has no beat"
    return RunView(run=run, beat=beat, attempts=_find_attempts(reader, beat), details=reader.details(run.id))


def _find_attempts(reader: QueryReader, beat: BeatRecord) -> tuple[RunRecord, ...]:
    """The oldest first."""
    return tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs))))[::-1] if beat.runs else ()


def serialize_target(view: TargetView) -> JsonObject:
    return {
        "target": view.target.name,
        "kind": view.target.kind,
        "max_concurrent": view.target.max_concurrent,
        "running": view.running,
        "budget": view.budget or None,
        "written_at": view.written_at,
        "schedules": [serialize_schedule(each.record, each.state) for each in view.schedules],
    }


def serialize_schedule_view(view: ScheduleView) -> JsonObject:
    return {
        **serialize_schedule(view.summary.record, view.summary.state),
        "kind": view.target.kind,
        "prompt": view.brief.prompt,
        "next": [format_optional_timestamp(each) for each in view.instants],
        "hints": [serialize_hint(each) for each in view.hints],
        "policies": {each.key: {"value": each.text, "default": each.is_default} for each in view.policies},
        "runs": [serialize_run(each) for each in view.runs],
    }


def serialize_run_view(view: RunView) -> JsonObject:
    details = view.details
    return {
        **serialize_run(view.run),
        "node": {"host": details.host, "pid": details.pid, "version": details.version},
        "response": details.response,
        "usage": dict(details.usage),
        "session": details.session,
        "attempts": [serialize_run(each) for each in view.attempts],
        "beat_outcome": view.beat.outcome,
    }


def serialize_beat_view(view: BeatView) -> JsonObject:
    return {**serialize_beat(view.beat), "runs": [serialize_run(each) for each in view.runs]}
