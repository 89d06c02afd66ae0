"""How the fleet is, on one screen: what runs, what is late, what fails, what comes next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.records import HintRecord, NodeRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import DEFAULT_NAME
from herdbeat.domain.spend import THE_FLEET, Account
from herdbeat.durations import format_duration
from herdbeat.governor.backoff import multiplier, stretched
from herdbeat.governor.state import BY_POLICY
from herdbeat.service.holds import is_paused
from herdbeat.service.listing import find_named, paces_of
from herdbeat.service.objects import Json, moment_or_null, run_object
from herdbeat.service.selecting import parts_of
from herdbeat.service.states import State
from herdbeat.store.looking import Look, LookReader
from herdbeat.store.reader import Filter

MANY = 1_000
SOON = 5
_PACED = Source.BASELINE_INTERVAL
SHOWN = 10
"""Rows of a group that a screen has room for."""

USUAL_RUNS = 20
BEATS = 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """A run that is going, and how long those before it took: from short to long."""

    run: RunRecord
    usual: tuple[timedelta, timedelta] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """An instant that is due for longer than it should be, and why."""

    schedule: str
    due_at: datetime
    reason: str
    detail: str
    busy_with: RunRecord | None = None
    """The run that takes the room it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    now: datetime
    pid: int | None
    node: NodeRecord | None
    schedules: int
    running: tuple[Active, ...] = ()
    late: tuple[Late, ...] = ()
    failing: tuple[ScheduleRecord, ...] = ()
    held: tuple[ScheduleRecord, ...] = ()
    soon: tuple[ScheduleRecord, ...] = ()
    paces: Mapping[str, HintRecord] = field(default_factory=dict)
    """The hints that set the pace of what comes soon, by schedule."""

    behind: timedelta | None = None
    """How late the scheduler comes to what is due; None if there is nothing to tell it by."""

    crew: tuple[NodeRecord, ...] = ()
    """The nodes that live, where several may share the ledger."""

    today: tuple[float, float] | None = None
    """Dollars that the fleet has used today, and may use; None if it has no such budget."""

    @property
    def since(self) -> datetime | None:
        """Since when it is running; or since when it is not."""
        if self.pid and self.crew:
            return min(each.started_at for each in self.crew)
        if self.node is None:
            return None
        return self.node.started_at if self.pid else self.node.stopped_at or self.node.seen_at

    @property
    def is_held_by_hand(self) -> bool:
        """Whether all that is held was held by somebody. A schedule may also pause itself."""
        return all(each.paused_by != BY_POLICY for each in self.held)

    @property
    def needs_a_look(self) -> bool:
        return bool(self.late or self.failing)


def read_status(
    reader: LookReader, now: datetime, pid: int | None, name: str | None = None, *, zone: ZoneInfo
) -> Status:
    """Of the fleet, or of one target or schedule. `pid` is who runs it; None if nobody does. Raises NotFound.

    `zone` is where the fleet's day begins and ends.
    """
    status = Status(
        now=now,
        pid=pid,
        node=_last_of(reader.nodes(SHOWN)),
        schedules=reader.number_of_schedules(),
        running=tuple(_running(reader)) if pid else (),
        late=tuple(_late(reader, now, pid)),
        failing=tuple(_records(reader, reader.failing_schedules(MANY))),
        held=tuple(_held(reader, now)),
        soon=tuple(_records(reader, reader.soonest_schedules(now, SOON))),
        behind=_behind(reader, now) if pid else None,
        today=_today(reader, now, zone) if name is None else None,
    )
    if name is not None:
        status = _narrowed(status, find_named(reader, Look(now=now, names=(name,), limit=MANY)))
    return replace(status, paces=paces_of(reader, [each.id for each in status.soon], now))


def _last_of(nodes: Iterable[NodeRecord]) -> NodeRecord | None:
    """The one that was there longest: the newest need not be the last to leave."""
    return max(nodes, key=lambda each: (each.stopped_at is None, each.stopped_at or each.seen_at), default=None)


def _today(reader: LookReader, now: datetime, zone: ZoneInfo) -> tuple[float, float] | None:
    budget = reader.budgets(0).get(THE_FLEET)  # no schedule has the number 0, so only the fleet's own is left
    if budget is None or budget.usd_per_day is None:
        return None
    from herdbeat.scheduler.budget import day_of  # noqa: PLC0415 -- few fleets have one

    return reader.spent(Account(THE_FLEET, day_of(now, zone))).usd, budget.usd_per_day


def _narrowed(status: Status, records: list[ScheduleRecord]) -> Status:
    """The same for some of the schedules."""
    labels = {each.label for each in records}
    coming = sorted(
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
        soon=tuple(each for _, _, each in coming[:SOON]),
    )


def usual_time(runs: Iterable[RunRecord]) -> tuple[timedelta, timedelta] | None:
    """Between which times nine of ten runs lie; None if there are too few to say."""
    spent = sorted(
        run.spent(run.finished_at) for run in runs if run.finished_at is not None and run.status is RunStatus.SUCCEEDED
    )
    if len(spent) < 3:
        return None
    return spent[len(spent) // 20], spent[-1 - len(spent) // 20]


def backoff_words(record: ScheduleRecord) -> str:
    """backoff x8 = 40m, max_interval makes it 15m; nothing where no backoff holds it."""
    pace, policies = record.plan.trigger.pace, record.plan.policies
    if pace is None or not record.failures or record.next_source not in (_PACED, Source.CLAMPED_MAX):
        return ""
    times = multiplier(policies.backoff, record.failures)
    waits = stretched(pace, policies.backoff, record.failures)
    words = f"backoff x{times} = {format_duration(waits)}"
    most = policies.limits.at_most
    return f"{words}, max_interval makes it {format_duration(most)}" if most is not None and most < waits else words


def status_object(status: Status, fleet: str) -> Json:
    return {
        "fleet": fleet,
        "now": moment_or_null(status.now),
        "scheduler": {
            "running": status.pid is not None,
            "pid": status.pid,
            "since": moment_or_null(status.since),
            "nodes": len(status.crew) if status.crew else int(status.pid is not None),
            "behind_s": None if status.behind is None else round(status.behind.total_seconds(), 3),
        },
        "schedules": status.schedules,
        "today": None if status.today is None else {"usd": status.today[0], "usd_per_day": status.today[1]},
        "running": [run_object(each.run) for each in status.running],
        "late": [
            {
                "schedule": each.schedule,
                "due_at": moment_or_null(each.due_at),
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
                "state": State.DISABLED if each.disabled_by else State.PAUSED,
                "until": None if each.disabled_by else moment_or_null(each.paused_until),
                "by": each.disabled_by or each.paused_by,
                "reason": "" if each.disabled_by else each.paused_reason,
            }
            for each in status.held
        ],
        "next": [
            {"schedule": each.label, "next_run_at": moment_or_null(each.next_run_at), "source": each.next_source}
            for each in status.soon
        ],
    }


def _running(reader: LookReader) -> Iterable[Active]:
    """How long a run usually takes is looked up for as many as a screen shows."""
    for index, run in enumerate(reader.run(number) for number in reader.open_runs(MANY)):
        if run is not None:
            yield Active(run=run, usual=_usual(reader, run) if index < SHOWN else None)


def _usual(reader: LookReader, run: RunRecord) -> tuple[timedelta, timedelta] | None:
    target, name = parts_of(run.schedule)
    return usual_time(reader.runs(Filter(target=target, name=name or DEFAULT_NAME, before=run.id, limit=USUAL_RUNS)))


def _behind(reader: LookReader, now: datetime) -> timedelta | None:
    """The middle of how late the last beats of the clock were found; or how long the oldest waits to be found."""
    found = sorted(reader.recent_lateness(BEATS))
    usual = found[len(found) // 2] if found else None
    overdue = reader.oldest_overdue(now)
    return usual if overdue is None else max(usual or timedelta(0), now - overdue)


def _late(reader: LookReader, now: datetime, pid: int | None) -> Iterable[Late]:
    for beat in (reader.beat(number) for number in reader.waiting_beats(now, MANY)):
        if beat is not None:
            record = _record_of(reader, beat.schedule)
            if record is not None and beat.due_at + record.plan.policies.late_after < now:
                reason, detail = _why_waiting(record, beat.reason, pid)
                busy = _busy_with(reader, record) if reason == SkipReason.AT_CAPACITY else None
                yield Late(schedule=beat.schedule, due_at=beat.due_at, reason=reason, detail=detail, busy_with=busy)
    for record in _records(reader, reader.overdue_schedules(now, MANY)):
        due_at = record.next_run_at
        if due_at is not None and due_at + record.plan.policies.late_after < now:
            reason, detail = _why_waiting(record, "", pid)
            yield Late(schedule=record.label, due_at=due_at, reason=reason, detail=detail)


def _busy_with(reader: LookReader, record: ScheduleRecord) -> RunRecord | None:
    return next(iter(reader.runs(Filter(target=record.target, status=RunStatus.RUNNING, limit=1))), None)


def _held(reader: LookReader, now: datetime) -> Iterable[ScheduleRecord]:
    """What somebody has paused or switched off. What a file switches off is as it should be."""
    for record in _records(reader, reader.held_schedules(MANY)):
        if record.disabled_by is not None or is_paused(record, now):
            yield record


def _why_waiting(record: ScheduleRecord, reason: str, pid: int | None) -> tuple[str, str]:
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


def _record_of(reader: LookReader, label: str) -> ScheduleRecord | None:
    target, name = parts_of(label)
    found = reader.schedules(Filter(target=target, name=name or DEFAULT_NAME, limit=1))
    return found[0] if found else None


def _records(reader: LookReader, ids: Iterable[int]) -> Iterable[ScheduleRecord]:
    """In the order of the ids."""
    wanted = list(ids)
    found = {each.id: each for each in reader.schedules_of(wanted)}
    return [found[number] for number in wanted if number in found]
