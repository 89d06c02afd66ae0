"""How the fleet is, on one screen: what runs, what is late, what fails, what comes next."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.records import NodeRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import DEFAULT_NAME
from herdbeat.service.objects import Json, moment_or_null, run_object
from herdbeat.service.selecting import parts_of
from herdbeat.store.reader import Filter, SqliteReader

MANY = 1_000
SOON = 5
USUAL_RUNS = 20


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    now: datetime
    pid: int | None
    node: NodeRecord | None
    schedules: int
    running: tuple[Active, ...] = ()
    late: tuple[Late, ...] = ()
    failing: tuple[ScheduleRecord, ...] = ()
    soon: tuple[ScheduleRecord, ...] = ()

    @property
    def since(self) -> datetime | None:
        """Since when it is running; or since when it is not."""
        if self.node is None:
            return None
        return self.node.started_at if self.pid else self.node.stopped_at or self.node.seen_at

    @property
    def needs_a_look(self) -> bool:
        return bool(self.late or self.failing)


def read_status(reader: SqliteReader, now: datetime, pid: int | None) -> Status:
    """`pid` is who runs the fleet; None if nobody does."""
    return Status(
        now=now,
        pid=pid,
        node=reader.last_node(),
        schedules=reader.number_of_schedules(),
        running=tuple(_running(reader)) if pid else (),
        late=tuple(_late(reader, now, pid)),
        failing=tuple(_records(reader, reader.failing_schedules(MANY))),
        soon=tuple(_records(reader, reader.soonest_schedules(now, SOON))),
    )


def usual_time(runs: Iterable[RunRecord]) -> tuple[timedelta, timedelta] | None:
    """Between which times nine of ten runs lie; None if there are too few to say."""
    spent = sorted(
        run.finished_at - (run.started_at or run.claimed_at)
        for run in runs
        if run.finished_at is not None and run.status is RunStatus.SUCCEEDED
    )
    if len(spent) < 3:
        return None
    return spent[len(spent) // 20], spent[-1 - len(spent) // 20]


def status_object(status: Status, fleet: str) -> Json:
    return {
        "fleet": fleet,
        "now": moment_or_null(status.now),
        "scheduler": {
            "running": status.pid is not None,
            "pid": status.pid,
            "since": moment_or_null(status.since),
        },
        "schedules": status.schedules,
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
        "next": [
            {"schedule": each.label, "next_run_at": moment_or_null(each.next_run_at), "source": each.next_source}
            for each in status.soon
        ],
    }


def _running(reader: SqliteReader) -> Iterable[Active]:
    for run in (reader.run(number) for number in reader.open_runs(MANY)):
        if run is not None:
            target, name = parts_of(run.schedule)
            before = reader.runs(Filter(target=target, name=name or DEFAULT_NAME, before=run.id, limit=USUAL_RUNS))
            yield Active(run=run, usual=usual_time(before))


def _late(reader: SqliteReader, now: datetime, pid: int | None) -> Iterable[Late]:
    for beat in (reader.beat(number) for number in reader.waiting_beats(now, MANY)):
        if beat is not None:
            record = _record_of(reader, beat.schedule)
            if record is not None and beat.due_at + record.plan.policies.late_after < now:
                reason, detail = _why_waiting(record, beat.reason, pid)
                yield Late(schedule=beat.schedule, due_at=beat.due_at, reason=reason, detail=detail)
    for record in _records(reader, reader.overdue_schedules(now, MANY)):
        due_at = record.next_run_at
        if due_at is not None and due_at + record.plan.policies.late_after < now:
            reason, detail = _why_waiting(record, "", pid)
            yield Late(schedule=record.label, due_at=due_at, reason=reason, detail=detail)


def _why_waiting(record: ScheduleRecord, reason: str, pid: int | None) -> tuple[str, str]:
    if pid is None:
        return "scheduler_down", ""
    match reason:
        case SkipReason.AT_CAPACITY:
            return reason, f"{record.target_running} of {record.target_room} running"
        case SkipReason.ALREADY_RUNNING:
            return reason, "its earlier run is still going"
        case Source.CATCH_UP:
            return reason, "caught up one after the other"
        case _:
            return reason or "not_started", "the scheduler has not come to it yet"


def _record_of(reader: SqliteReader, label: str) -> ScheduleRecord | None:
    target, name = parts_of(label)
    found = reader.schedules(Filter(target=target, name=name or DEFAULT_NAME, limit=1))
    return found[0] if found else None


def _records(reader: SqliteReader, ids: Iterable[int]) -> Iterable[ScheduleRecord]:
    return [record for record in (reader.schedule(number) for number in ids) if record is not None]
