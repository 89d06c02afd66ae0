"""What needs a person's attention, grouped by cause: the status of a fleet as a list of tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.agent_records import AttentionRecord
from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.ids import DEFAULT_SCHEDULE_NAME, format_short_id
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus, is_program_missing
from herdbeat.durations import humanize
from herdbeat.service.queries.gates import MISSED_TEXTS
from herdbeat.service.queries.schedule_state import DisplayState, describe_retry
from herdbeat.service.queries.selectors import split_selector
from herdbeat.service.queries.status import FleetStatus, LateBeat, describe_backoff
from herdbeat.store.reader import Filter, Reader

MISSED_WINDOW = timedelta(hours=24)
MAX_MISSED_ROWS = 200
MAX_MISSED_SCHEDULES = 50
MAX_RELATED = 3
MAX_STUCK = 200


class AttentionCause(StrEnum):
    """Why something is on the list, the most urgent first."""

    NEEDS_YOU = "needs you"
    FAILING = "failing"
    LATE = "late"
    NEVER_RUNS = "will never run"
    MISSED = "missed"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """One line. `schedule` is empty for what concerns an account or the whole fleet; `run` is the run to look at,
    `runs` are all that say the same.

    `fix` is the command that changes it, if there is one.
    """

    cause: AttentionCause
    schedule: str
    text: str
    since: datetime | None = None
    next_run_at: datetime | None = None
    run: int | None = None
    runs: tuple[int, ...] = ()
    related: tuple[str, ...] = ()
    account: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastProblem:
    """The newest run that failed or instant that was missed. `run` is None for a missed one."""

    schedule: str
    at: datetime
    run: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionList:
    """Everything that needs attention. `missed` counts the instants of the last day that did not run."""

    items: tuple[AttentionItem, ...] = ()
    missed: int = 0
    last_problem: "LastProblem | None" = None
    """What went wrong last, looked up only while nothing needs attention."""

    def of(self, cause: AttentionCause) -> tuple[AttentionItem, ...]:
        return tuple(each for each in self.items if each.cause is cause)


def read_attention(reader: Reader, status: FleetStatus) -> AttentionList:
    """Return what needs attention now, grouped by cause."""
    since = status.now - MISSED_WINDOW
    missed = reader.beats(Filter(outcome=BeatOutcome.MISSED, since=since, limit=MAX_MISSED_ROWS))
    stuck = reader.stuck_schedules(MAX_STUCK)
    records = {each.id: each for each in reader.schedules_by_id(list(stuck))} if stuck else {}
    offline = [records[each] for each, found in stuck.items() if found.reason is SkipReason.TARGET_OFFLINE]
    items = (
        *_list_needs(status),
        *_list_failing(status),
        *_list_late(status),
        *_list_never_running(status, offline),
        *_list_missed(reader, missed, status),
        *_list_budget(status),
    )
    last = None if items else find_last_problem(reader)
    return AttentionList(items=items, missed=sum(each.count for each in missed), last_problem=last)


def find_last_problem(reader: Reader) -> LastProblem | None:
    """Return what went wrong last, as far as the ledger remembers."""
    runs = [
        run for status in (RunStatus.FAILED, RunStatus.TIMED_OUT) for run in reader.runs(Filter(status=status, limit=1))
    ]
    found = [LastProblem(schedule=run.schedule, at=run.began_at, run=run.id) for run in runs]
    missed = reader.beats(Filter(outcome=BeatOutcome.MISSED, limit=1))
    found += [LastProblem(schedule=beat.schedule, at=beat.last_due_at) for beat in missed]
    return max(found, key=lambda each: each.at, default=None)


def _list_needs(status: FleetStatus) -> Iterator[AttentionItem]:
    """One line for all runs of a schedule that ask the same: one that runs every minute asks every minute."""
    marks: dict[tuple[str, tuple[str, ...]], list[AttentionRecord]] = {}
    for mark in status.attention:
        marks.setdefault((mark.schedule, mark.what), []).append(mark)
    for (schedule, what), same in marks.items():
        text = "; ".join(what) or "its run needs a person"
        yield AttentionItem(
            cause=AttentionCause.NEEDS_YOU,
            schedule=schedule,
            text=text if len(same) == 1 else f"{text} ({len(same)} runs)",
            since=same[0].at,
            run=same[0].run_id,
            runs=tuple(each.run_id for each in same),
            fix=f"herdbeat ack {' '.join(format_short_id(each.run_id) for each in same)}",
        )


def _list_failing(status: FleetStatus) -> Iterator[AttentionItem]:
    """Schedules that fail with the same error are related: often one service is down."""
    by_error: dict[str, list[str]] = {}
    for record in status.failing:
        by_error.setdefault(record.last_error or "", []).append(record.label)
    for record in status.failing:
        if record.quarantine is not None or is_program_missing(record.last_error):
            continue
        related = [each for each in by_error[record.last_error or ""] if each != record.label]
        yield AttentionItem(
            cause=AttentionCause.FAILING,
            schedule=record.label,
            text=_describe_failure(record, status.now),
            since=record.last_run_at,
            next_run_at=record.next_run_at,
            related=tuple(related[:MAX_RELATED]) if record.last_error else (),
            fix=f"herdbeat reset {record.label}",
        )


def _describe_failure(record: ScheduleRecord, now: datetime) -> str:
    count = f"{record.failures} in a row" if record.failures > 1 else "failed"
    count = "cannot start" if record.is_unable else count
    parts = (count, record.last_error or "", describe_retry(record, now), describe_backoff(record))
    return " · ".join(each for each in parts if each)


def _list_late(status: FleetStatus) -> Iterator[AttentionItem]:
    for late in status.late:
        if late.reason != SkipReason.TARGET_OFFLINE:
            yield _build_late(late, AttentionCause.LATE)


def _build_late(late: LateBeat, cause: AttentionCause) -> AttentionItem:
    by = "" if late.blocking_run is None else f", busy with {late.blocking_run.schedule}"
    return AttentionItem(
        cause=cause,
        schedule=late.schedule,
        text=f"{late.reason}: {late.detail}{by}" if late.detail else late.reason,
        since=late.due_at,
        run=None if late.blocking_run is None else late.blocking_run.id,
    )


def _list_never_running(status: FleetStatus, offline: Sequence[ScheduleRecord]) -> Iterator[AttentionItem]:
    """What waits for something that does not come by itself."""
    cause = AttentionCause.NEVER_RUNS
    late = {each.schedule for each in status.late if each.reason == SkipReason.TARGET_OFFLINE}
    for record in offline:
        if record.label not in late:
            text = f"no live node has the label {record.plan.policies.runs_on}; its beats are skipped"
            yield AttentionItem(cause=cause, schedule=record.label, text=text, since=record.last_run_at)
    for hold in status.accounts:
        yield AttentionItem(
            cause=cause,
            schedule="",
            account=hold.account,
            text=f"it has reached its usage limit, opens in {humanize(hold.until - status.now)}",
            since=hold.began_at,
            run=hold.run_id,
            fix=f"herdbeat resume --account {hold.account}",
        )
    yield from (_build_late(each, cause) for each in status.late if each.reason == SkipReason.TARGET_OFFLINE)
    for record in status.failing:
        if record.quarantine is not None:
            text, fix = f"quarantined: {record.quarantine}", f"herdbeat reset {record.label}"
            yield AttentionItem(cause=cause, schedule=record.label, text=text, fix=fix)
        elif is_program_missing(record.last_error):
            yield AttentionItem(
                cause=cause, schedule=record.label, text=str(record.last_error), next_run_at=record.next_run_at
            )
    for held in status.held:
        if held.hold.state is DisplayState.PAUSED and held.hold.until is None:
            reason = f' "{held.hold.reason}"' if held.hold.reason else ""
            text = f"paused without an end by {held.hold.by}{reason}"
            label = held.record.label
            yield AttentionItem(cause=cause, schedule=label, text=text, fix=f"herdbeat resume {label}")


def _list_missed(reader: Reader, beats: Iterable[BeatRecord], status: FleetStatus) -> Iterator[AttentionItem]:
    """One line a schedule: the newest, with the number of all of them. What has run since needs no attention."""
    by_schedule: dict[str, list[BeatRecord]] = {}
    for beat in beats:
        by_schedule.setdefault(beat.schedule, []).append(beat)
    for schedule, missed in list(by_schedule.items())[:MAX_MISSED_SCHEDULES]:
        if _has_run_since(reader, schedule, missed[0].last_due_at):
            continue
        newest, count = missed[0], sum(each.count for each in missed)
        many = f"{count} times, " if count > 1 else ""
        yield AttentionItem(
            cause=AttentionCause.MISSED,
            schedule=schedule,
            text=f"{many}{MISSED_TEXTS[MissedReason(newest.reason)]}",
            since=min(newest.last_due_at, status.now),
            fix=f"herdbeat run {schedule}",
        )


def _has_run_since(reader: Reader, schedule: str, moment: datetime) -> bool:
    target, name = split_selector(schedule)
    records = reader.schedules(Filter(target=target, name=name or DEFAULT_SCHEDULE_NAME, limit=1))
    return not records or (records[0].last_run_at is not None and records[0].last_run_at > moment)


def _list_budget(status: FleetStatus) -> Iterator[AttentionItem]:
    spend, cause = status.spend_today, AttentionCause.BUDGET
    if spend is not None and spend.usd_per_day and spend.usd >= spend.usd_per_day:
        text = f"today's budget of ${spend.usd_per_day:,.2f} is used up (${spend.usd:,.2f}); beats are skipped"
        yield AttentionItem(cause=cause, schedule="", text=text)
    for each in status.over_budget:
        text = "a budget is used up; its beats are skipped until the next day of the budget"
        yield AttentionItem(cause=cause, schedule=each.record.label, text=text, since=each.record.last_run_at)
