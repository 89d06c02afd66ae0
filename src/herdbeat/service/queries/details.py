"""Everything about one target, schedule, run or beat, found by what a person writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from herdbeat.config.build_policies import build_default_policies
from herdbeat.config.schema.policies import BUDGET, ENDS_AT, MAX_RUNS, POLICIES, TIMEZONE
from herdbeat.domain.agent_records import AgentRunRecord
from herdbeat.domain.budget import BudgetOwner, BudgetScope
from herdbeat.domain.ids import parse_short_id
from herdbeat.domain.manual_request import ManualRequest
from herdbeat.domain.outbox import DeliveryRecord
from herdbeat.domain.policies import Budget, Policies, Retry
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, RunSpec
from herdbeat.domain.target import Target, TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.domain.work_claim import WorkClaimView
from herdbeat.durations import format_duration
from herdbeat.service.queries.gates import BUDGET_SCOPE_SUFFIXES, format_amount
from herdbeat.service.queries.hints import HintState, HintView, build_hint, classify_hints
from herdbeat.service.queries.run_requests import find_request
from herdbeat.service.queries.schedule_state import drop_dead_runs
from herdbeat.service.queries.schedules import ScheduleSummary, summarize_schedules
from herdbeat.service.queries.selectors import build_unknown_name_error, find_run, split_selector
from herdbeat.service.queries.upcoming import preview_runs
from herdbeat.store.reader import Filter, Reader, ScheduleQuery
from herdbeat.timestamps import format_timestamp

# The policies of a schedule, in the words of its file.


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
    """Return the policies that have a value, in the order of the reference, each with whether it is the default.

    `shared` are the budgets that the schedule shares with others.
    """
    defaults = dict(_iter_policy_texts(build_default_policies(policies.zone, trigger, target), {}))
    # A stored zone no longer says whether the schedule named it or the fleet, so it is never called a default.
    defaults.pop(TIMEZONE.name)
    texts = [(key, text) for key, text in _iter_policy_texts(policies, shared) if text]
    return [PolicyValue(key=key, text=text, is_default=defaults.get(key) == text) for key, text in texts]


def _iter_policy_texts(policies: Policies, shared: Mapping[BudgetScope, Budget]) -> Iterator[tuple[str, str]]:
    for key in _SHOWN_POLICIES:
        value = attrgetter(key.domain_path)(policies)
        if key is BUDGET:
            yield key.name, _format_budgets({BudgetScope.SCHEDULE: value, **shared})
        else:
            yield key.name, _FORMATTERS.get(key.name, _format_value)(value)


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


def _format_retry(retry: Retry) -> str:
    if retry.attempts <= 1:
        return "1 attempt"
    return f"{retry.attempts} attempts, {format_duration(retry.wait)} apart, then x{retry.factor}"


_FORMATTERS: Mapping[str, Callable[[Any], str]] = {
    "backoff": lambda backoff: f"x{backoff.factor} for each failure, up to {backoff.max_failures}",
    "retry": _format_retry,
    "precheck": " ".join,
    "tags": ", ".join,
    "adapt": lambda rules: f"{len(rules)} rule{'s' * (len(rules) != 1)}" if rules else "",
}
_SHOWN_POLICIES = [key for key in POLICIES if key is not MAX_RUNS]
"""In the order of the reference; but `max_runs` comes after the two moments that bound a schedule, not before."""
_SHOWN_POLICIES.insert(_SHOWN_POLICIES.index(ENDS_AT) + 1, MAX_RUNS)


def _format_budgets(budgets: Mapping[BudgetScope, Budget | None]) -> str:
    set_budgets = [(scope, budget) for scope in BudgetScope if (budget := budgets.get(scope)) is not None]
    return "; ".join(f"{format_budget(budget)}{BUDGET_SCOPE_SUFFIXES[scope]}" for scope, budget in set_budgets)


def format_budget(budget: Budget) -> str:
    """Return for example `$5, 2,000,000 tokens, 1 run a day`."""
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
    """A schedule. `instants` are its next times, as far as they are known."""

    summary: ScheduleSummary
    target: Target
    brief: RunSpec
    policies: tuple[PolicyValue, ...]
    instants: tuple[datetime, ...]
    hints: tuple[HintView, ...]
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run, its beat, and all attempts at that beat, the oldest first.

    `agent` is what an agent has reported, `item` the work item that the run took, `hooks` what its hooks deliver.
    """

    run: RunRecord
    beat: BeatRecord
    attempts: tuple[RunRecord, ...]
    details: RunDetails
    agent: AgentRunRecord | None = None
    item: WorkClaimView | None = None
    hooks: tuple[DeliveryRecord, ...] = ()
    request: ManualRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatView:
    """A beat with its runs. `request` is what was given with a run by hand."""

    beat: BeatRecord
    runs: tuple[RunRecord, ...]
    request: ManualRequest | None = None


DetailView = TargetView | ScheduleView | RunView | BeatView


def find_details(reader: Reader, selector: str, now: datetime, *, has_live_node: bool = True) -> DetailView:
    """Look for a name before an id, and for a run before a beat. Raises NotFound with a guess."""
    kind, colon, number = selector.partition(":")
    if colon and kind in ("run", "beat"):
        return _find_by_id(reader, selector, number, is_beat=kind == "beat")
    if "*" in selector:
        raise build_unknown_name_error(reader, selector)
    target, name = split_selector(selector)
    named = reader.find(ScheduleQuery(now=now, names=(f"{target}/{name or '*'}",), limit=MAX_TARGET_SCHEDULES))
    if not has_live_node:
        named = [drop_dead_runs(each) for each in named]
    single = next((each for each in named if name or each.name == DEFAULT_SCHEDULE_NAME), None)
    if single is not None:
        return _build_schedule_view(reader, single, now)
    if named or (not name and reader.find_target(target) is not None):
        view = _build_target_view(reader, target, named, now)
        return view if has_live_node else replace(view, running=0)
    return _find_by_id(reader, selector, selector, is_beat=False)


def find_target(reader: Reader, name: str, now: datetime) -> TargetView:
    """Return a target with its schedules, if it has any. Raises NotFound with a guess."""
    if reader.find_target(name) is None:
        raise build_unknown_name_error(reader, name)
    schedules = reader.find(ScheduleQuery(now=now, names=(f"{name}/*",), limit=MAX_TARGET_SCHEDULES))
    return _build_target_view(reader, name, schedules, now)


def _find_by_id(reader: Reader, selector: str, text: str, *, is_beat: bool) -> RunView | BeatView:
    """Return the run with an id, or the beat if it is named or no run has the id. Raises NotFound."""
    run = None if is_beat else find_run(reader, text)
    if run is not None:
        return _build_run_view(reader, run)
    beat_id = parse_short_id(text)
    beat = reader.beat(beat_id) if beat_id and beat_id < 1 << 62 else None
    if beat is None or selector.startswith("run:"):
        raise build_unknown_name_error(reader, selector)
    return BeatView(beat=beat, runs=_find_attempts(reader, beat), request=find_request(reader, beat.id, beat.dedup_id))


def _build_target_view(reader: Reader, name: str, schedules: Sequence[ScheduleRecord], now: datetime) -> TargetView:
    target, target_id, written_at, running = _load_target(reader, name)
    budgets = reader.budgets(schedules[0].id) if schedules else {}
    budget = budgets.get(BudgetOwner(BudgetScope.TARGET, target_id))
    rows = tuple(summarize_schedules(reader, list(schedules), now))
    budget_text = "" if budget is None else format_budget(budget)
    return TargetView(target=target, written_at=written_at, running=running, schedules=rows, budget=budget_text)


def _build_schedule_view(reader: Reader, record: ScheduleRecord, now: datetime) -> ScheduleView:
    target, *_ = _load_target(reader, record.target)
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


def _load_target(reader: Reader, name: str) -> tuple[Target, int, str, int]:
    """Return a target that exists, with its id, its origin and the number of its open runs."""
    found = reader.find_target(name)
    assert found is not None, f"{name}: schedules without their target"
    return reader.targets([found[0]])[found[0]], *found


def _build_run_view(reader: Reader, run: RunRecord) -> RunView:
    beat = reader.beat(run.beat_id)
    assert beat is not None, f"run {run.id}: it has no beat"
    return RunView(
        run=run,
        beat=beat,
        attempts=_find_attempts(reader, beat),
        details=reader.details(run.id),
        agent=reader.agent_run(run.id) if run.is_agent else None,
        item=reader.work_claim_of_run(run.id),
        hooks=tuple(reader.deliveries_of_run(run.id)),
        request=find_request(reader, run.beat_id, run.dedup_id),
    )


def _find_attempts(reader: Reader, beat: BeatRecord) -> tuple[RunRecord, ...]:
    return tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs))))[::-1] if beat.runs else ()
