"""How the fleet is, on one screen: what runs, what is late, what fails, what comes next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.budget import FLEET_OWNER, BudgetDay
from herdbeat.domain.decision import Source
from herdbeat.domain.records import HintRecord, NodeRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.durations import format_duration
from herdbeat.governor.candidates import backoff_interval, backoff_multiplier
from herdbeat.governor.state import PAUSED_BY_POLICY
from herdbeat.service.queries.schedule_state import DisplayState, is_paused
from herdbeat.service.queries.schedules import find_interval_hints, find_schedules
from herdbeat.service.queries.selectors import split_selector
from herdbeat.service.serialize import JsonObject, format_optional_timestamp, serialize_run
from herdbeat.store.reader import Filter, Reader, ScheduleQuery

MAX_ROWS = 1_000
MAX_UPCOMING_SCHEDULES = 5
_INTERVAL_SOURCE = Source.BASELINE_INTERVAL
MAX_SHOWN_ROWS = 10
"""Rows of a group that a screen has room for."""

DURATION_SAMPLE_RUNS = 20
LATENESS_SAMPLE_BEATS = 21


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInProgress:
    """A run that is going, and how long those before it took: from short to long."""

    run: RunRecord
    typical_duration: tuple[timedelta, timedelta] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateBeat:
    """An instant that is due for longer than it should be, and why."""

    schedule: str
    due_at: datetime
    reason: str
    detail: str
    blocking_run: RunRecord | None = None
    """The run that takes the room it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    now: datetime
    pid: int | None
    node: NodeRecord | None
    schedules: int
    running: tuple[RunInProgress, ...] = ()
    late: tuple[LateBeat, ...] = ()
    failing: tuple[ScheduleRecord, ...] = ()
    held: tuple[ScheduleRecord, ...] = ()
    upcoming: tuple[ScheduleRecord, ...] = ()
    interval_hints: Mapping[str, HintRecord] = field(default_factory=dict)
    """The hints that set the pace of what comes soon, by schedule."""

    lag: timedelta | None = None
    """How late the scheduler comes to what is due; None if there is nothing to tell it by."""

    live_nodes: tuple[NodeRecord, ...] = ()
    """The nodes that live, where several may share the ledger."""

    spend_today: tuple[float, float] | None = None
    """Dollars that the fleet has used today, and may use; None if it has no such budget."""

    @property
    def since(self) -> datetime | None:
        """Since when it is running; or since when it is not."""
        if self.pid and self.live_nodes:
            return min(each.started_at for each in self.live_nodes)
        if self.node is None:
            return None
        return self.node.started_at if self.pid else self.node.stopped_at or self.node.seen_at

    @property
    def is_held_by_user(self) -> bool:
        """Whether all that is held was held by somebody. A schedule may also pause itself."""
        return all(each.paused_by != PAUSED_BY_POLICY for each in self.held)

    @property
    def needs_attention(self) -> bool:
        return bool(self.late or self.failing)


def read_status(
    reader: Reader, now: datetime, pid: int | None, name: str | None = None, *, zone: ZoneInfo
) -> FleetStatus:
    """Of the fleet, or of one target or schedule. `pid` is who runs it; None if nobody does. Raises NotFound.

    `zone` is where the fleet's day begins and ends.
    """
    status = FleetStatus(
        now=now,
        pid=pid,
        node=_find_last_node(reader.nodes(MAX_SHOWN_ROWS)),
        schedules=reader.count_all_schedules(),
        running=tuple(_find_running(reader)) if pid else (),
        late=tuple(_find_late(reader, now, pid)),
        failing=tuple(_load_records(reader, reader.failing_schedules(MAX_ROWS))),
        held=tuple(_find_held(reader, now)),
        upcoming=tuple(_load_records(reader, reader.upcoming_schedules(now, MAX_UPCOMING_SCHEDULES))),
        lag=_measure_lag(reader, now) if pid else None,
        spend_today=_read_spend_today(reader, now, zone) if name is None else None,
    )
    if name is not None:
        status = _filter_status(status, find_schedules(reader, ScheduleQuery(now=now, names=(name,), limit=MAX_ROWS)))
    return replace(status, interval_hints=find_interval_hints(reader, [each.id for each in status.upcoming], now))


def _find_last_node(nodes: Iterable[NodeRecord]) -> NodeRecord | None:
    """The one that was there longest: the newest need not be the last to leave."""
    return max(nodes, key=lambda each: (each.stopped_at is None, each.stopped_at or each.seen_at), default=None)


def _read_spend_today(reader: Reader, now: datetime, zone: ZoneInfo) -> tuple[float, float] | None:
    budget = reader.budgets(0).get(FLEET_OWNER)  # no schedule has the number 0, so only the fleet's own is left
    if budget is None or budget.usd_per_day is None:
        return None
    from herdbeat.scheduler.budgets import budget_date  # noqa: PLC0415 -- few fleets have one

    return reader.budget_usage(BudgetDay(FLEET_OWNER, budget_date(now, zone))).usd, budget.usd_per_day


def _filter_status(status: FleetStatus, records: list[ScheduleRecord]) -> FleetStatus:
    """The same for some of the schedules."""
    labels = {each.label for each in records}
    upcoming_records = sorted(
        (each.next_run_at, each.id, each)
        for each in records
        if each.next_run_at is not None and each.next_run_at > status.now and each.next_source is not Source.PAUSED
    )
    return replace(
        status,
        schedules=len(records),
        running=tuple(each for each in status.running if each.run.schedule in labels),
        late=tuple(each for each in status.late if each.schedule in labels),
        failing=tuple(each for each in status.failing if each.label in labels),
        held=tuple(each for each in status.held if each.label in labels),
        upcoming=tuple(each for _, _, each in upcoming_records[:MAX_UPCOMING_SCHEDULES]),
    )


def estimate_duration(runs: Iterable[RunRecord]) -> tuple[timedelta, timedelta] | None:
    """Between which times nine of ten runs lie; None if there are too few to say."""
    spent = sorted(
        run.elapsed(run.finished_at)
        for run in runs
        if run.finished_at is not None and run.status is RunStatus.SUCCEEDED
    )
    if len(spent) < 3:
        return None
    return spent[len(spent) // 20], spent[-1 - len(spent) // 20]


def describe_backoff(record: ScheduleRecord) -> str:
    """backoff x8 = 40m, max_interval makes it 15m; nothing where no backoff holds it."""
    pace, policies = record.plan.trigger.interval, record.plan.policies
    if pace is None or not record.failures or record.next_source not in (_INTERVAL_SOURCE, Source.CLAMPED_MAX):
        return ""
    factor = backoff_multiplier(policies.backoff, record.failures)
    backoff_wait = backoff_interval(pace, policies.backoff, record.failures)
    words = f"backoff x{factor} = {format_duration(backoff_wait)}"
    max_interval = policies.limits.at_most
    return (
        f"{words}, max_interval makes it {format_duration(max_interval)}"
        if max_interval is not None and max_interval < backoff_wait
        else words
    )


def serialize_status(status: FleetStatus, fleet: str) -> JsonObject:
    return {
        "fleet": fleet,
        "now": format_optional_timestamp(status.now),
        "scheduler": {
            "running": status.pid is not None,
            "pid": status.pid,
            "since": format_optional_timestamp(status.since),
            "nodes": len(status.live_nodes) if status.live_nodes else int(status.pid is not None),
            "behind_s": None if status.lag is None else round(status.lag.total_seconds(), 3),
        },
        "schedules": status.schedules,
        "today": None
        if status.spend_today is None
        else {"usd": status.spend_today[0], "usd_per_day": status.spend_today[1]},
        "running": [serialize_run(each.run) for each in status.running],
        "late": [
            {
                "schedule": each.schedule,
                "due_at": format_optional_timestamp(each.due_at),
                "reason": each.reason,
                "detail": each.detail,
            }
            for each in status.late
        ],
        "failing": [
            {"schedule": each.label, "failures": each.failures, "error": each.quarantine or each.last_error}
            for each in status.failing
        ],
        "held": [
            {
                "schedule": each.label,
                "state": DisplayState.DISABLED if each.disabled_by else DisplayState.PAUSED,
                "until": None if each.disabled_by else format_optional_timestamp(each.paused_until),
                "by": each.disabled_by or each.paused_by,
                "reason": "" if each.disabled_by else each.paused_reason,
            }
            for each in status.held
        ],
        "next": [
            {
                "schedule": each.label,
                "next_run_at": format_optional_timestamp(each.next_run_at),
                "source": each.next_source,
            }
            for each in status.upcoming
        ],
    }


def _find_running(reader: Reader) -> Iterable[RunInProgress]:
    """How long a run usually takes is looked up for as many as a screen shows."""
    for index, run in enumerate(reader.run(number) for number in reader.open_runs(MAX_ROWS)):
        if run is not None:
            yield RunInProgress(
                run=run, typical_duration=_estimate_run_duration(reader, run) if index < MAX_SHOWN_ROWS else None
            )


def _estimate_run_duration(reader: Reader, run: RunRecord) -> tuple[timedelta, timedelta] | None:
    target, name = split_selector(run.schedule)
    return estimate_duration(
        reader.runs(
            Filter(target=target, name=name or DEFAULT_SCHEDULE_NAME, before=run.id, limit=DURATION_SAMPLE_RUNS)
        )
    )


def _measure_lag(reader: Reader, now: datetime) -> timedelta | None:
    """The middle of how late the last beats of the clock were found; or how long the oldest waits to be found."""
    found = sorted(reader.recent_lateness(LATENESS_SAMPLE_BEATS))
    usual = found[len(found) // 2] if found else None
    overdue = reader.oldest_overdue(now)
    return usual if overdue is None else max(usual or timedelta(0), now - overdue)


def _find_late(reader: Reader, now: datetime, pid: int | None) -> Iterable[LateBeat]:
    for beat in (reader.beat(number) for number in reader.waiting_beats(now, MAX_ROWS)):
        if beat is not None:
            record = _find_record(reader, beat.schedule)
            if record is not None and beat.due_at + record.plan.policies.late_after < now:
                reason, detail = _explain_pending(record, beat.reason, pid)
                busy = _find_blocking_run(reader, record) if reason == SkipReason.AT_CAPACITY else None
                yield LateBeat(
                    schedule=beat.schedule, due_at=beat.due_at, reason=reason, detail=detail, blocking_run=busy
                )
    for record in _load_records(reader, reader.overdue_schedules(now, MAX_ROWS)):
        due_at = record.next_run_at
        if due_at is not None and due_at + record.plan.policies.late_after < now:
            reason, detail = _explain_pending(record, "", pid)
            yield LateBeat(schedule=record.label, due_at=due_at, reason=reason, detail=detail)


def _find_blocking_run(reader: Reader, record: ScheduleRecord) -> RunRecord | None:
    return next(iter(reader.runs(Filter(target=record.target, status=RunStatus.RUNNING, limit=1))), None)


def _find_held(reader: Reader, now: datetime) -> Iterable[ScheduleRecord]:
    """What somebody has paused or switched off. What a file switches off is as it should be."""
    for record in _load_records(reader, reader.paused_or_disabled_schedules(MAX_ROWS)):
        if record.disabled_by is not None or is_paused(record, now):
            yield record


def _explain_pending(record: ScheduleRecord, reason: str, pid: int | None) -> tuple[str, str]:
    if pid is None:
        return "scheduler_down", ""
    match reason:
        case SkipReason.AT_CAPACITY:
            return reason, f"{record.target_running} of {record.target_room} running"
        case SkipReason.ALREADY_RUNNING:
            return reason, "its earlier run is still going"
        case SkipReason.INACTIVE_HOURS:
            return reason, f"it waits for {record.plan.policies.active_hours}"
        case SkipReason.TARGET_OFFLINE:
            return reason, f"no live node has the label {record.plan.policies.runs_on}"
        case Source.CATCH_UP:
            return reason, "caught up one after the other"
        case _:
            return reason or "not_started", "the scheduler has not come to it yet"


def _find_record(reader: Reader, label: str) -> ScheduleRecord | None:
    target, name = split_selector(label)
    found = reader.schedules(Filter(target=target, name=name or DEFAULT_SCHEDULE_NAME, limit=1))
    return found[0] if found else None


def _load_records(reader: Reader, ids: Iterable[int]) -> Iterable[ScheduleRecord]:
    """In the order of the ids."""
    wanted = list(ids)
    found = {each.id: each for each in reader.schedules_by_id(wanted)}
    return [found[number] for number in wanted if number in found]
