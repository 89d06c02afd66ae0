"""The planner worker: plans one group at a time, each at its own interval, beside the loop. It never delays a beat.

A session sees the schedules of its group with their limits, hints and last runs. Its proposals are applied as commands
of the planner, in one transaction with the record of the session.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.agent_run import AgentReport, TokenUsage
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.past_run import PastRun
from herdbeat.domain.planner import (
    DEFAULT_ANALYSIS_DISTANCE,
    MAX_ANALYSIS_DISTANCE,
    MIN_ANALYSIS_DISTANCE,
    PLANNER_ORIGIN,
    ActionKind,
    PlannedAction,
    PlannerSession,
    PlannerSettings,
    PlannerUsage,
    SessionStatus,
)
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.run import Outcome
from herdbeat.domain.selection import Selection
from herdbeat.durations import format_duration
from herdbeat.errors import ClaimLost, HerdbeatError, StoreUnavailable
from herdbeat.planner.base import PlannerModel
from herdbeat.planner.session import (
    MAX_SESSION_TOKENS,
    SessionLimits,
    SessionOutcome,
    build_single_prompt,
    read_single_answer,
    run_session,
)
from herdbeat.planner.session_tools import MAX_HISTORY_RUNS, PlannedSchedule, RunGlimpse, SessionTools
from herdbeat.redaction import redact, redact_data
from herdbeat.runners.base import attached_report
from herdbeat.scheduler.agent_hints import day_start
from herdbeat.scheduler.budgets import next_reset_at
from herdbeat.scheduler.spend import Charge, PriceEstimate, price_charge
from herdbeat.scheduler.timers import Timer
from herdbeat.service.commands.base import (
    Actor,
    ClearHints,
    Command,
    HintSchedules,
    PauseSchedules,
    ScheduleChanges,
    Scope,
)
from herdbeat.service.commands.dispatch import execute
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.store.base import Store, Transaction
from herdbeat.store.reader import Reader
from herdbeat.threads import call_in_thread
from herdbeat.timestamps import format_optional_timestamp

log = logging.getLogger(__name__)

CHECK_INTERVAL = timedelta(seconds=5)
FIRST_RETRY_DELAY = timedelta(minutes=15)
_LEASE_MARGIN = timedelta(minutes=2)
MAX_GROUP_SCHEDULES = 100
MAX_PAUSE = timedelta(days=7)
ACTOR = Actor(name=PLANNER_ORIGIN, scopes=frozenset({Scope.CONTROL}))

AskAgent = Callable[[str], Awaitable[Outcome]]


@dataclass(slots=True, kw_only=True)
class PlannerWorker:
    """Plans for one fleet. Either a `model` or the CLI of an agent is asked."""

    store: Store
    reader: Reader
    timer: Timer
    fleet: Fleet
    settings: PlannerSettings
    model: PlannerModel | None = None
    ask_agent: AskAgent | None = None
    estimate_price: PriceEstimate | None = None
    _failures: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Analyse what is due until cancelled. A failure of the model or the ledger only delays an analysis."""
        never = asyncio.Event()
        while True:
            try:
                await self.analyse_next()
            except (StoreUnavailable, ClaimLost) as error:
                log.warning("planner waits for the ledger error=%s", error.message)
            await self.timer.sleep_until(self.timer.now() + CHECK_INTERVAL, never)

    async def analyse_next(self) -> PlannerSession | None:
        """Analyse the group that has been due the longest; return its session, None if no group is due."""
        now, groups = self.timer.now(), find_groups(self.fleet, self.settings)
        until = now + self.settings.timeout + _LEASE_MARGIN
        if not groups:
            return None
        group = await self.store.write(lambda tx: tx.planner_take_group(groups, now, until))
        if group is None:
            return None
        used = await call_in_thread(self.reader.planner_usage, day_start(now, self.fleet.zone))
        if reason := self._find_used_up(used):
            return await self._finish(self._skip(group, now, reason), {})
        try:
            view = await call_in_thread(load_group, self.reader, group, now)
        except HerdbeatError as error:
            return await self._finish(self._skip(group, now, error.message), {})
        outcome = await self._ask(SessionTools(now=now, schedules=view.schedules), used)
        return await self._finish(self._build_session(group, now, outcome), view.ids)

    def _find_used_up(self, used: PlannerUsage) -> str:
        """Return which budget of the day is used up; empty if none is."""
        settings = self.settings
        if used.sessions >= settings.sessions_per_day:
            return f"sessions_per_day {settings.sessions_per_day} is used up"
        if settings.tokens_per_day is not None and used.tokens >= settings.tokens_per_day:
            return f"tokens_per_day {settings.tokens_per_day:,} is used up"
        if settings.usd_per_day is not None and used.usd >= settings.usd_per_day:
            return f"usd_per_day {settings.usd_per_day:g} is used up"
        return ""

    async def _ask(self, tools: SessionTools, used: PlannerUsage) -> SessionOutcome:
        settings = self.settings
        if self.model is not None:
            left = MAX_SESSION_TOKENS if settings.tokens_per_day is None else settings.tokens_per_day - used.tokens
            limits = SessionLimits(
                max_turns=settings.max_turns, timeout=settings.timeout, max_tokens=min(left, MAX_SESSION_TOKENS)
            )
            return await run_session(self.model, tools, limits)
        assert self.ask_agent is not None
        answer, outcome = SessionOutcome(tools=tools), None
        try:
            async with asyncio.timeout(settings.timeout.total_seconds()):
                outcome = await self.ask_agent(build_single_prompt(tools))
        except TimeoutError as error:
            answer.error = f"the session was ended after {settings.timeout.total_seconds():g} s"
            _read_usage(attached_report(error), answer)
        except HerdbeatError as error:
            answer.error = error.message
        if outcome is not None:
            _read_agent(outcome, answer, self.timer.now())
        return answer

    def _build_session(self, group: str, started_at: datetime, outcome: SessionOutcome) -> PlannerSession:
        now, analysis = self.timer.now(), outcome.tools.analysis
        status = SessionStatus.FAILED if outcome.error else SessionStatus.INCOMPLETE
        if analysis is not None and not outcome.error:
            status = SessionStatus.COMPLETED
        staged = tuple(outcome.tools.staged.values()) if status is SessionStatus.COMPLETED else ()
        warnings = list(outcome.warnings)
        if outcome.tools.staged and not staged:
            warnings.append(f"{len(outcome.tools.staged)} proposals were dropped: the session was not completed")
        usage = TokenUsage(input_tokens=outcome.input_tokens, output_tokens=outcome.output_tokens)
        usd = self._find_cost(usage, outcome)
        if usd is None and self.settings.usd_per_day is not None:
            warnings.append("its cost is unknown, and does not count for usd_per_day")
        return PlannerSession(
            group=group,
            model=self.settings.model or self.settings.runtime,
            status=status,
            started_at=started_at,
            finished_at=now,
            next_at=self._plan_next(group, now, outcome),
            reasoning=redact(analysis.summary if analysis is not None else outcome.text[:4_000]),
            actions=tuple(replace(each, reason=redact(each.reason)) for each in staged),
            calls=tuple(outcome.tools.calls[-200:]),
            warnings=tuple(warnings),
            error=redact(outcome.error),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            usd=usd,
        )

    def _find_cost(self, usage: TokenUsage, outcome: SessionOutcome) -> float | None:
        charge = Charge(usage=usage if usage.total else None, usd=outcome.usd)
        model = self.settings.model or outcome.model
        return price_charge(charge, model, self.fleet.prices, self.estimate_price).usd

    def _plan_next(self, group: str, now: datetime, outcome: SessionOutcome) -> datetime:
        """Return when to look again. Failures in a row double the distance; a model's Retry-After is kept."""
        if outcome.tools.analysis is not None and not outcome.error:
            self._failures.pop(group, None)
            return next_analysis(now, outcome.tools.analysis.again_in)
        failures = self._failures[group] = min(self._failures.get(group, 0) + 1, 10)
        asked = timedelta(seconds=outcome.retry_after_s or 0)
        return next_analysis(now, max(asked, FIRST_RETRY_DELAY * 2 ** (failures - 1)))

    def _skip(self, group: str, now: datetime, reason: str) -> PlannerSession:
        """A budget opens again with the next day; anything else is looked at in an hour."""
        is_budget = "_per_day" in reason
        return PlannerSession(
            group=group,
            model=self.settings.model or self.settings.runtime,
            status=SessionStatus.SKIPPED,
            started_at=now,
            finished_at=now,
            next_at=next_reset_at(now, self.fleet.zone) if is_budget else next_analysis(now, None),
            error=reason,
        )

    async def _finish(self, session: PlannerSession, schedule_ids: Mapping[str, int]) -> PlannerSession:
        recorded = await self.store.write(lambda tx: commit_session(tx, session.finished_at, session, schedule_ids))
        log.info(
            "planner session group=%s status=%s actions=%s tokens=%s next=%s",
            *(recorded.group, recorded.status, len(recorded.actions), recorded.tokens, recorded.next_at),
        )
        return recorded


def _read_agent(outcome: Outcome, answer: SessionOutcome, now: datetime) -> None:
    report = outcome.agent
    _read_usage(report, answer)
    if report is not None:
        answer.text = report.answer
        if report.limit is not None and report.limit.reset_at is not None:
            answer.retry_after_s = max(0.0, (report.limit.reset_at - now).total_seconds())
    if report is None or not report.ok:
        answer.error = outcome.error or "the agent has failed"
    else:
        read_single_answer(report.answer, answer)


def _read_usage(report: AgentReport | None, answer: SessionOutcome) -> None:
    """Charge what a CLI reports, also one that was ended. Every session is a new one of the CLI: its totals are all."""
    if report is None:
        return
    usage = report.counted.own_usage or report.counted.totals.usage or TokenUsage()
    answer.usd, answer.model = report.counted.totals.usd, report.model
    answer.input_tokens, answer.output_tokens = usage.input_tokens, usage.output_tokens


# --- what a session sees


def find_groups(fleet: Fleet, settings: PlannerSettings) -> tuple[str, ...]:
    """Return the groups to analyse, in file order. Groups that no schedule has are left out."""
    known = dict.fromkeys(group for each in fleet.schedules if (group := each.policies.group))
    return tuple(name for name in known if not settings.groups or name in settings.groups)


class GroupView(NamedTuple):
    """The schedules of a group by name, and their ids in the ledger."""

    schedules: Mapping[str, PlannedSchedule]
    ids: Mapping[str, int]


def load_group(reader: Reader, group: str, now: datetime) -> GroupView:
    """Return what a session sees of a group. Raises NotFound if no schedule is in it."""
    records = select_schedules(reader, Selection(groups=(group,)))[:MAX_GROUP_SCHEDULES]
    hints: dict[str, list[str]] = {}
    for each in reader.hints([record.id for record in records]):
        if each.ended_at is None and each.expires_at > now:
            what = f"every {format_duration(each.every)}" if each.every else f"at {format_optional_timestamp(each.at)}"
            hints.setdefault(each.schedule, []).append(f"{what} by {each.origin}")
    return GroupView(
        {record.label: _describe(reader, record, hints.get(record.label, [])) for record in records},
        {record.label: record.id for record in records},
    )


def _describe(reader: Reader, record: ScheduleRecord, hints: list[str]) -> PlannedSchedule:
    runs = reader.past_runs(record.id, limit=MAX_HISTORY_RUNS)
    return PlannedSchedule(
        label=record.label, facts=_list_facts(record, hints), runs=tuple(_to_glimpse(each) for each in runs)
    )


def _list_facts(record: ScheduleRecord, hints: list[str]) -> Mapping[str, object]:
    limits = record.plan.policies.limits
    facts: dict[str, object] = {
        "runs": record.plan.trigger.describe(),
        "min_interval": format_duration(limits.at_least) if limits.at_least else None,
        "max_interval": format_duration(limits.at_most) if limits.at_most else None,
        "next_run_at": format_optional_timestamp(record.next_run_at),
        "failures": record.failures or None,
        "paused": {"by": record.paused_by, "reason": record.paused_reason} if record.paused else None,
        "hints": hints or None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _to_glimpse(run: PastRun) -> RunGlimpse:
    took = None if run.finished_at is None else round((run.finished_at - run.started_at).total_seconds() * 1_000)
    return RunGlimpse(
        at=run.started_at,
        status=run.skip_reason or str(run.status),
        duration_ms=took,
        response=redact_data(run.response),
    )


# --- the end of a session


def commit_session(
    tx: Transaction, now: datetime, session: PlannerSession, schedule_ids: Mapping[str, int]
) -> PlannerSession:
    """Apply the proposals of a session, and record it with the outcome of each. Returns what was recorded."""
    done = tuple(_apply_action(tx, now, each, schedule_ids) for each in session.actions)
    recorded = replace(session, actions=done)
    tx.planner_add_session(recorded)
    return recorded


def _apply_action(
    tx: Transaction, now: datetime, action: PlannedAction, schedule_ids: Mapping[str, int]
) -> PlannedAction:
    schedule_id = schedule_ids.get(action.schedule)
    if schedule_id is None:
        return replace(action, outcome="refused: the schedule no longer exists")
    try:
        changes = execute(tx, now, ACTOR, _build_command(now, action, schedule_id))
    except HerdbeatError as error:
        return replace(action, outcome=f"refused: {error.message}")
    (item,) = changes.items
    if item.refused:
        return replace(action, outcome=f"refused: {item.refused}")
    notes = f" ({'; '.join(item.notes)})" if item.notes else ""
    return replace(action, outcome=f"{'done' if item.changed else 'unchanged'}{notes}")


def _build_command(now: datetime, action: PlannedAction, schedule_id: int) -> Command[ScheduleChanges]:
    one, reason = (schedule_id,), action.reason
    match action.kind:
        case ActionKind.PROPOSE_INTERVAL:
            return HintSchedules(schedules=one, reason=reason, every=action.every_s, lasts=action.lasts_s)
        case ActionKind.PROPOSE_NEXT_TIME:
            return HintSchedules(schedules=one, reason=reason, at=action.at)
        case ActionKind.PAUSE_UNTIL:
            # A pause without an end would be one that only a person can end.
            latest = now + MAX_PAUSE
            until = latest if action.at is None else min(max(action.at, now), latest)
            return PauseSchedules(schedules=one, reason=reason, until=until)
        case ActionKind.CLEAR_HINTS:
            return ClearHints(schedules=one, reason=reason)


def next_analysis(now: datetime, wanted: timedelta | None) -> datetime:
    """Return when to look again: 5 minutes to 24 hours from now."""
    distance = DEFAULT_ANALYSIS_DISTANCE if wanted is None else wanted
    return now + min(max(distance, MIN_ANALYSIS_DISTANCE), MAX_ANALYSIS_DISTANCE)
