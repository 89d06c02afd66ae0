"""Everything about one thing: a target, a schedule, a run or a beat, whichever a word means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from herdbeat.config.build_policies import build_default_policies
from herdbeat.domain.budget import BudgetOwner, BudgetScope
from herdbeat.domain.change import Change
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.domain.policies import Backoff, Budget, Policies, Retry
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, RunSpec
from herdbeat.domain.target import Target, TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration
from herdbeat.service.queries.gates import BUDGET_SCOPE_SUFFIXES, format_amount
from herdbeat.service.queries.hints import HintState, HintView, build_hint, classify_hints, serialize_hint
from herdbeat.service.queries.schedules import ScheduleSummary, no_such_name, summarize_schedules
from herdbeat.service.queries.selectors import find_run, find_schedule, split_selector
from herdbeat.service.queries.upcoming import preview_runs
from herdbeat.service.serialize import (
    JsonObject,
    format_optional_timestamp,
    serialize_beat,
    serialize_run,
    serialize_schedule,
)
from herdbeat.store.reader import Filter, Reader, ScheduleQuery
from herdbeat.timestamps import format_timestamp

# Who changed what: the record, found and told.


def find_changes(
    reader: Reader, selector: str | None, *, since: datetime | None, before: int | None, limit: int
) -> list[Change]:
    """Newest first: of everything, of a target and its schedules, or of one schedule. Raises NotFound."""
    target, name = (None, None) if selector is None else split_selector(selector)
    found = reader.changes(Filter(target=target, name=name, since=since, before=before, limit=limit))
    if not found and selector is not None:
        find_schedule(reader, selector)  # what was removed keeps its record, so that comes first
    return found


def serialize_change(change: Change) -> JsonObject:
    return {
        "id": format_short_id(change.id),
        "at": format_optional_timestamp(change.at),
        "who": change.who,
        "what": change.what,
        "subject": change.subject,
        "before": None if change.before is None else dict(change.before),
        "after": None if change.after is None else dict(change.after),
    }


# The policies of a schedule in the words of its file, each with whether it is what nobody asked for.


_TIMEZONE_KEY = "timezone"
"""Nobody can tell any more whether it was written here or for the whole fleet, so it is never called a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyValue:
    key: str
    text: str
    is_default: bool


def describe_policies(
    policies: Policies,
    trigger: TriggerKind,
    target: TargetKind,
    shared: Mapping[BudgetScope, Budget] = MappingProxyType({}),
) -> list[PolicyValue]:
    """All that have a value, in the order of the reference. What is not set and has no default is left out.

    `shared` are the budgets that it shares with others.
    """
    defaults = dict(_iter_policy_texts(build_default_policies(policies.zone, trigger, target), {}))
    texts = [(key, text) for key, text in _iter_policy_texts(policies, shared) if text]
    return [
        PolicyValue(key=key, text=text, is_default=key != _TIMEZONE_KEY and defaults[key] == text)
        for key, text in texts
    ]


def _iter_policy_texts(policies: Policies, shared: Mapping[BudgetScope, Budget]) -> Iterator[tuple[str, str]]:
    limits, bounds = policies.limits, policies.bounds
    yield _TIMEZONE_KEY, policies.zone.key
    yield "catchup", policies.catchup
    yield "catchup_max", str(policies.catchup_max)
    yield "grace", _format_value(policies.grace)
    yield "max_late", _format_value(policies.max_late)
    yield "overlap", policies.overlap
    yield "jitter", _format_value(policies.jitter)
    yield "min_interval", _format_value(limits.at_least)
    yield "max_interval", _format_value(limits.at_most)
    yield "backoff", _format_backoff(policies.backoff)
    yield "retry", _format_retry(policies.retry)
    yield "timeout", _format_value(policies.timeout)
    yield "late_after", _format_value(policies.late_after)
    yield "pause_after_failures", _format_value(policies.pause_after_failures)
    yield "starts_at", _format_value(bounds.starts_at)
    yield "ends_at", _format_value(bounds.ends_at)
    yield "max_runs", _format_value(bounds.max_runs)
    yield "active_hours", _format_value(policies.active_hours)
    yield "budget", _format_budgets({BudgetScope.SCHEDULE: policies.budget, **shared})
    yield "precheck", " ".join(policies.precheck)
    yield "priority", str(policies.priority)
    yield "tags", ", ".join(policies.tags)
    yield "group", _format_value(policies.group)
    yield "runs_on", _format_value(policies.runs_on)
    yield "dedup", _format_value(policies.dedup)
    yield "when", _format_value(policies.when)
    yield "max_queued", _format_value(policies.max_queued)
    yield "first_run", policies.first_run
    yield "on_interrupt", policies.on_interrupt
    yield "adapt", f"{len(policies.adapt)} rules" if policies.adapt else ""


def _format_value(value: object) -> str:
    match value:
        case None:
            return ""
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_timestamp(value)
        case _:
            return str(value)


def _format_backoff(backoff: Backoff) -> str:
    return f"x{backoff.factor} for each failure, up to {backoff.max_failures}"


def _format_retry(retry: Retry) -> str:
    if retry.attempts <= 1:
        return "1 attempt"
    return f"{retry.attempts} attempts, {format_duration(retry.wait)} apart, then x{retry.factor}"


def _format_budgets(budgets: Mapping[BudgetScope, Budget | None]) -> str:
    found = ((scope, budgets.get(scope)) for scope in BudgetScope)
    return "; ".join(
        f"{format_budget(budget)}{BUDGET_SCOPE_SUFFIXES[scope]}" for scope, budget in found if budget is not None
    )


def format_budget(budget: Budget) -> str:
    """$5, 2,000,000 tokens, 1 run a day"""
    limits = (
        ("usd_per_day", budget.usd_per_day, ""),
        ("tokens_per_day", budget.tokens_per_day, " tokens"),
        ("runs_per_day", budget.runs_per_day, " run" if budget.runs_per_day == 1 else " runs"),
    )
    texts = [f"{format_amount(name, maximum)}{unit}" for name, maximum, unit in limits if maximum is not None]
    return f"{', '.join(texts)} a day"


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


def find_details(reader: Reader, selector: str, now: datetime) -> DetailView:
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


def _find_by_id(reader: Reader, selector: str, text: str, *, is_beat: bool) -> RunView | BeatView:
    """By its id: a run, unless a beat is meant or no run has it."""
    run = None if is_beat else find_run(reader, text)
    if run is not None:
        return _build_run_view(reader, run)
    number = parse_short_id(text)
    beat = reader.beat(number) if number and number < 1 << 62 else None
    if beat is None or selector.startswith("run:"):
        raise no_such_name(reader, selector)
    return BeatView(beat=beat, runs=_find_attempts(reader, beat))


def _build_target_view(reader: Reader, name: str, schedules: Sequence[ScheduleRecord], now: datetime) -> TargetView:
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


def _build_schedule_view(reader: Reader, record: ScheduleRecord, now: datetime) -> ScheduleView:
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


def _build_run_view(reader: Reader, run: RunRecord) -> RunView:
    beat = reader.beat(run.beat_id)
    assert beat is not None, f"run {run.id}: it has no beat"
    return RunView(run=run, beat=beat, attempts=_find_attempts(reader, beat), details=reader.details(run.id))


def _find_attempts(reader: Reader, beat: BeatRecord) -> tuple[RunRecord, ...]:
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
