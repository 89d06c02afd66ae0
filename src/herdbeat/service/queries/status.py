"""The status of a fleet on one screen: what runs, what is late, what fails, what comes next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.agent_records import AttentionRecord
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.budget import FLEET_OWNER, BudgetDay
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.records import HintRecord, NodeRecord, RemotePlace, RunRecord, ScheduleRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.durations import format_duration
from herdbeat.governor.candidates import backoff_interval, backoff_multiplier
from herdbeat.service.queries.schedule_state import Hold, drop_dead_runs, find_hold, resolve_condition
from herdbeat.service.queries.schedules import expect_next_runs, find_interval_hints, find_schedules
from herdbeat.service.queries.selectors import split_selector
from herdbeat.store.reader import Filter, Reader, ScheduleQuery

MAX_ROWS = 1_000
MAX_UPCOMING_SCHEDULES = 5
_INTERVAL_SOURCES = (Source.BASELINE_INTERVAL, Source.CLAMPED_MAX)
MAX_SHOWN_ROWS = 10
"""Rows of a group that fit on a screen."""

DURATION_SAMPLE_RUNS = 20
LATENESS_SAMPLE_BEATS = 21


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInProgress:
    """An active run, and between which durations its predecessors usually lie. `remote` is where it is on an engine."""

    run: RunRecord
    typical_duration: tuple[timedelta, timedelta] | None
    remote: RemotePlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateBeat:
    """An instant that is due for longer than `late_after`, and why."""

    schedule: str
    due_at: datetime
    reason: str
    detail: str
    blocking_run: RunRecord | None = None
    """The run that occupies the capacity it waits for."""


class SpendToday(NamedTuple):
    """Dollars that the fleet has used today, and may use; None if it has no budget in dollars."""

    usd: float
    usd_per_day: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSchedule:
    """A schedule that a person or a policy stopped."""

    record: ScheduleRecord
    hold: Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOverBudget:
    """A schedule whose beats are skipped because a budget is used up, until the next day of the budget."""

    record: ScheduleRecord
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    now: datetime
    pid: int | None
    node: NodeRecord | None
    schedules: int
    running: tuple[RunInProgress, ...] = ()
    cut_off: tuple[RunRecord, ...] = ()
    """Runs that died with their node while no node runs. The next start records them as interrupted."""

    late: tuple[LateBeat, ...] = ()
    failing: tuple[ScheduleRecord, ...] = ()
    held: tuple[HeldSchedule, ...] = ()
    upcoming: tuple[ScheduleRecord, ...] = ()
    interval_hints: Mapping[str, HintRecord] = field(default_factory=dict)
    """The interval hints in effect of the upcoming schedules, by label."""

    lag: timedelta | None = None
    """How late the scheduler finds what is due; None if nothing shows it."""

    live_nodes: tuple[NodeRecord, ...] = ()
    """The live nodes, where several can share the ledger."""

    spend_today: SpendToday | None = None
    """None if the fleet has no budget in dollars, and no agent has cost any today."""

    attention: tuple[AttentionRecord, ...] = ()
    """The runs of agents that need a person."""

    accounts: tuple[AccountHold, ...] = ()
    """The accounts that are held, the first to open first."""

    over_budget: tuple[ScheduleOverBudget, ...] = ()

    @property
    def since(self) -> datetime | None:
        """Since when the fleet runs; or since when it does not."""
        if self.pid and self.live_nodes:
            return min(each.started_at for each in self.live_nodes)
        if self.node is None:
            return None
        return self.node.started_at if self.pid else self.node.stopped_at or self.node.seen_at

    @property
    def needs_attention(self) -> bool:
        return bool(self.late or self.failing)

    @property
    def has_working_node(self) -> bool:
        """Whether a node runs the fleet. One that was started with --no-workers starts nothing."""
        return self.pid is not None and (not self.live_nodes or any(each.works for each in self.live_nodes))


def read_status(
    reader: Reader,
    now: datetime,
    pid: int | None,
    name: str | None = None,
    *,
    zone: ZoneInfo,
    max_upcoming: int = MAX_UPCOMING_SCHEDULES,
) -> FleetStatus:
    """Return the status of the fleet, or of one target or schedule. Raises NotFound.

    `pid` is the scheduler's, None if none runs; `zone` is where the day of the fleet's budget begins and ends.
    """
    late = tuple(find_late(reader, now, pid))
    overdue = [] if pid else _find_overdue(reader, now, late)
    status = FleetStatus(
        now=now,
        pid=pid,
        node=_find_last_node(reader.nodes(MAX_SHOWN_ROWS), is_down=pid is None),
        schedules=reader.count_all_schedules(),
        running=tuple(_find_running(reader)) if pid else (),
        cut_off=() if pid else tuple(_find_cut_off(reader)),
        late=late,
        failing=tuple(_find_failing(reader, now)),
        held=tuple(_find_held(reader, now)),
        upcoming=tuple(_find_upcoming(reader, now, overdue, max_upcoming, is_down=pid is None)),
        lag=_measure_lag(reader, now) if pid else None,
        spend_today=_read_spend_today(reader, now, zone) if name is None else None,
        attention=tuple(reader.open_attention(MAX_ROWS)),
        accounts=tuple(reader.holds(now)),
        over_budget=tuple(_find_over_budget(reader, now)),
    )
    if name is not None:
        status = _filter_status(status, find_schedules(reader, ScheduleQuery(now=now, names=(name,), limit=MAX_ROWS)))
    hints = find_interval_hints(reader, [each.id for each in status.upcoming], now)
    upcoming = sorted(expect_next_runs(list(status.upcoming), hints, now), key=lambda each: each.next_run_at or now)
    return replace(status, interval_hints=hints, upcoming=tuple(upcoming) if hints else status.upcoming)


def _find_upcoming(
    reader: Reader, now: datetime, overdue: list[ScheduleRecord], limit: int, *, is_down: bool
) -> list[ScheduleRecord]:
    upcoming = _load_records(reader, reader.upcoming_schedules(now, limit))
    found = [drop_dead_runs(each) for each in (*overdue, *upcoming)] if is_down else [*overdue, *upcoming]
    return [each for each in found if each.next_run_at is not None][:limit]


def _find_overdue(reader: Reader, now: datetime, late: Iterable[LateBeat]) -> list[ScheduleRecord]:
    """Return what is due and not late yet. While no node runs, it would be the next to start."""
    labels = {each.schedule for each in late}
    records = _load_records(reader, reader.overdue_schedules(now, MAX_ROWS))
    return [each for each in records if each.label not in labels and each.next_run_at is not None]


def _find_last_node(nodes: Iterable[NodeRecord], *, is_down: bool) -> NodeRecord | None:
    """The node that was alive last: the newest need not be the last to leave, and one that was killed has not left."""
    return max(
        nodes,
        key=lambda each: (not is_down and each.stopped_at is None, each.stopped_at or each.seen_at),
        default=None,
    )


def _read_spend_today(reader: Reader, now: datetime, zone: ZoneInfo) -> SpendToday | None:
    budget = reader.budgets(0).get(FLEET_OWNER)  # no schedule has the id 0, so only the fleet's own is returned
    today = now.astimezone(zone).date().isoformat()
    if budget is None or budget.usd_per_day is None:
        dollars = [cost.usd for cost in reader.costs(today) if cost.usd is not None]
        return SpendToday(sum(dollars), None) if dollars else None
    return SpendToday(reader.budget_usage(BudgetDay(FLEET_OWNER, today)).usd, budget.usd_per_day)


def _filter_status(status: FleetStatus, records: list[ScheduleRecord]) -> FleetStatus:
    labels = {each.label for each in records}
    shown_elsewhere = {each.schedule for each in status.late}
    upcoming_records = sorted(
        (each.next_run_at, each.id, each)
        for each in records
        if each.next_run_at is not None and each.next_source is not Source.PAUSED
        if each.next_run_at > status.now or (status.pid is None and each.label not in shown_elsewhere)
    )
    return replace(
        status,
        schedules=len(records),
        running=tuple(each for each in status.running if each.run.schedule in labels),
        cut_off=tuple(each for each in status.cut_off if each.schedule in labels),
        late=tuple(each for each in status.late if each.schedule in labels),
        failing=tuple(each for each in status.failing if each.label in labels),
        held=tuple(each for each in status.held if each.record.label in labels),
        attention=tuple(each for each in status.attention if each.schedule in labels),
        over_budget=tuple(each for each in status.over_budget if each.record.label in labels),
        upcoming=tuple(each for _, _, each in upcoming_records[:MAX_UPCOMING_SCHEDULES]),
    )


def estimate_duration(runs: Iterable[RunRecord]) -> tuple[timedelta, timedelta] | None:
    """Return the durations between which nine of ten successful runs lie; None if there are fewer than three."""
    succeeded = [run for run in runs if run.status is RunStatus.SUCCEEDED]
    spent = sorted(run.elapsed(run.finished_at) for run in succeeded if run.finished_at is not None)
    return (spent[len(spent) // 20], spent[-1 - len(spent) // 20]) if len(spent) >= 3 else None


def describe_backoff(record: ScheduleRecord) -> str:
    """Return for example `backoff x8 = 40m, max_interval makes it 15m`; empty where no backoff applies."""
    pace, policies = record.plan.trigger.interval, record.plan.policies
    if pace is None or not record.failures or record.next_source not in _INTERVAL_SOURCES:
        return ""
    factor = backoff_multiplier(policies.backoff, record.failures)
    backoff_wait = backoff_interval(pace, policies.backoff, record.failures)
    text = f"backoff x{factor} = {format_duration(backoff_wait)}"
    max_interval = policies.limits.at_most
    if max_interval is None or max_interval >= backoff_wait:
        return text
    return f"{text}, limited by max_interval to {format_duration(max_interval)}"


def _find_running(reader: Reader) -> Iterable[RunInProgress]:
    """Typical durations are looked up only for as many runs as a screen shows: each costs a query."""
    places = reader.remote_places(MAX_ROWS)
    for index, run in enumerate(reader.run(run_id) for run_id in reader.open_runs(MAX_ROWS)):
        if run is not None:
            duration = _estimate_run_duration(reader, run) if index < MAX_SHOWN_ROWS else None
            yield RunInProgress(run=run, typical_duration=duration, remote=places.get(run.id))


def _find_cut_off(reader: Reader) -> Iterable[RunRecord]:
    places = reader.remote_places(MAX_ROWS)  # what is on an engine needs no node
    found = (reader.run(run_id) for run_id in reader.open_runs(MAX_ROWS) if run_id not in places)
    return (run for run in found if run is not None)


def _estimate_run_duration(reader: Reader, run: RunRecord) -> tuple[timedelta, timedelta] | None:
    target, name = split_selector(run.schedule)
    name = name or DEFAULT_SCHEDULE_NAME
    return estimate_duration(reader.runs(Filter(target=target, name=name, before=run.id, limit=DURATION_SAMPLE_RUNS)))


def _measure_lag(reader: Reader, now: datetime) -> timedelta | None:
    """Return the median lateness of the last clock beats, or how long the oldest overdue one waits if that is more."""
    lateness = sorted(reader.recent_lateness(LATENESS_SAMPLE_BEATS))
    median = lateness[len(lateness) // 2] if lateness else None
    overdue = reader.oldest_overdue(now)
    return median if overdue is None else max(median or timedelta(0), now - overdue)


def find_late(reader: Reader, now: datetime, pid: int | None) -> Iterable[LateBeat]:
    is_held = bool(reader.holds(now))
    for beat in (reader.beat(beat_id) for beat_id in reader.waiting_beats(now, MAX_ROWS)):
        if beat is None or (record := find_record(reader, beat.schedule)) is None:
            continue
        if beat.reason == SkipReason.RATE_LIMITED and is_held:
            continue  # its account is listed, and forty lines for one login would hide the rest
        due_at = record.retry_at if beat.reason == Source.RETRY and record.retry_at else beat.due_at
        if due_at + record.late_after < now:
            reason, detail = _explain_pending(record, beat.reason, pid)
            running = Filter(target=record.target, status=RunStatus.RUNNING, limit=1)
            run = next(iter(reader.runs(running)), None) if reason == SkipReason.AT_CAPACITY else None
            yield LateBeat(schedule=beat.schedule, due_at=due_at, reason=reason, detail=detail, blocking_run=run)
    for record in _load_records(reader, reader.overdue_schedules(now, MAX_ROWS)):
        late_since = resolve_condition(record if pid else drop_dead_runs(record), now).late_since
        if late_since is not None:
            reason, detail = _explain_pending(record, "", pid)
            yield LateBeat(schedule=record.label, due_at=late_since, reason=reason, detail=detail)


def _find_failing(reader: Reader, now: datetime) -> Iterable[ScheduleRecord]:
    records = _load_records(reader, reader.failing_schedules(MAX_ROWS))
    return (record for record in records if resolve_condition(record, now).is_failing)


def _find_over_budget(reader: Reader, now: datetime) -> Iterable[ScheduleOverBudget]:
    """Yield the schedules whose newest beat had no budget, unless that was on an earlier day."""
    stuck = reader.stuck_schedules(MAX_ROWS)
    ids = [each for each, found in stuck.items() if found.reason is SkipReason.BUDGET_EXCEEDED]
    if not ids:
        return
    from herdbeat.scheduler.budgets import budget_date, next_reset_at  # noqa: PLC0415 -- few fleets have used one up

    for record in _load_records(reader, ids):
        zone = record.plan.policies.zone
        if budget_date(stuck[record.id].last_due_at, zone) == budget_date(now, zone):
            yield ScheduleOverBudget(record=record, until=next_reset_at(now, zone))


def _find_held(reader: Reader, now: datetime) -> Iterable[HeldSchedule]:
    for record in _load_records(reader, reader.paused_or_disabled_schedules(MAX_ROWS)):
        if (hold := find_hold(record, now)) is not None:
            yield HeldSchedule(record=record, hold=hold)


def _explain_pending(record: ScheduleRecord, reason: str, pid: int | None) -> tuple[str, str]:
    if pid is None:
        return "scheduler_down", ""
    details: dict[str, str] = {
        SkipReason.AT_CAPACITY: f"{record.target_running} of {record.target_room} running",
        SkipReason.ALREADY_RUNNING: "its previous run is still active",
        SkipReason.INACTIVE_HOURS: f"waiting for active_hours {record.plan.policies.active_hours}",
        SkipReason.RATE_LIMITED: "waiting for its account",
        SkipReason.TARGET_OFFLINE: f"no live node has the label {record.plan.policies.runs_on}",
        Source.CATCH_UP: "waiting to be caught up",
    }
    return reason or "not_started", details.get(reason, "waiting for the scheduler")


def find_record(reader: Reader, label: str) -> ScheduleRecord | None:
    target, name = split_selector(label)
    return next(iter(reader.schedules(Filter(target=target, name=name or DEFAULT_SCHEDULE_NAME, limit=1))), None)


def _load_records(reader: Reader, ids: Iterable[int]) -> Iterable[ScheduleRecord]:
    """Return the records in the order of the ids."""
    wanted = list(ids)
    records = {each.id: each for each in reader.schedules_by_id(wanted)}
    return [records[schedule_id] for schedule_id in wanted if schedule_id in records]
