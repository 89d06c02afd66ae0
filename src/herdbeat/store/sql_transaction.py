"""The transaction of a store that speaks SQL: each method is a named statement with a whole batch of rows.

Which SQL that is, and how a batch gets there, is the business of its statements.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.budget import (
    FLEET_OWNER,
    BudgetDay,
    BudgetOwner,
    BudgetScope,
    Reservation,
    SpendAdjustment,
    SpendTotals,
)
from herdbeat.domain.codec import to_json
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.governor.state import Pause
from herdbeat.store.base import (
    BeatExtension,
    CatchupCursor,
    CounterDelta,
    NewRun,
    OpenRun,
    ScheduleSnapshot,
    TargetCapacity,
)
from herdbeat.store.microseconds import from_micros, to_micros
from herdbeat.store.record_mapping import read_budgets, read_plan
from herdbeat.store.row_mapping import read_snapshot, read_snapshot_safely
from herdbeat.store.rows import ChangedBeat, ChangedSchedule, FinishedRun, LastAttempt, NewBeat, PendingBeat
from herdbeat.store.sql_transaction_admin import SqlMaintenanceTransaction, read_pending_beats
from herdbeat.store.statements import Connection, RowCount, dump_json, dump_sanitized

# The way of nearly every beat: it comes due, starts, succeeds without a word, and its schedule is decided again.
#
# Rows that say nothing unusual go by narrow statements, which bind only what differs and hold no foreign text; all
# others by the wide ones, which carry everything as JSON, cleaned of what no ledger can hold.


T = TypeVar("T")
Row = tuple[object, ...]


def split_simple(rows: Iterable[T], is_simple: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """The plain ones, and the others."""
    plain: list[T] = []
    others: list[T] = []
    for row in rows:
        (plain if is_simple(row) else others).append(row)
    return plain, others


def is_simple_start(numbered: tuple[int, NewBeat]) -> bool:
    """One instant that starts at once."""
    beat = numbered[1]
    return (
        beat.outcome is BeatOutcome.RUNNING
        and beat.number == 1
        and beat.wake_at is None
        and not (beat.origin or beat.payload or beat.reason)
    )


def start_row(numbered: tuple[int, NewBeat]) -> Row:
    number, beat = numbered
    due_at, created_at = to_micros(beat.due_at), to_micros(beat.created_at)
    return number, *beat[:3], due_at, beat.source, beat.priority, created_at


def is_simple_settle(beat: ChangedBeat) -> bool:
    """It ran. Its attempts were counted when they began."""
    return beat.outcome is BeatOutcome.RAN and beat.settled and not beat.reason


def is_simple_success(run: FinishedRun) -> bool:
    """A success that has nothing to tell."""
    outcome = run.outcome
    return (
        outcome.status is RunStatus.SUCCEEDED
        and outcome.code is None
        and outcome.response is None
        and run.log is None
        and not (outcome.error or outcome.summary or outcome.usage or outcome.session or outcome.note)
    )


def is_simple_reschedule(each: ChangedSchedule) -> bool:
    """Decided again by a success that moved its anchor. Only a finish has a status, and no finish moves the tail."""
    return (
        each.last_status is RunStatus.SUCCEEDED
        and each.next_trace is not None
        and each.next_run_at == each.next_due_at == each.wake_at
        and each.anchor_at == each.last_run_at
        and not (each.failures or each.is_new or each.next_origin or each.quarantine or each.last_error)
    )


def reschedule_row(each: ChangedSchedule) -> Row:
    at, now = to_micros(each.next_run_at), to_micros(each.last_run_at)
    return each.id, at, each.next_source, each.next_trace, each.runs, each.running, now


def success_row(run: FinishedRun) -> Row:
    return run.run_id, to_micros(run.started_at)


# What people ask of single beats and runs: the side of the ledger that skip, cancel, retry and backfill work on.


class SqlRunRequestTransaction(SqlMaintenanceTransaction):
    def set_skips(self, schedule_id: int, skips: int, by: str, reason: str) -> None:
        self._connection.execute("set_skips", id=schedule_id, skips=skips, by=by, reason=reason)

    def schedule_consume_skips(self, used: Sequence[tuple[int, int]]) -> None:
        self._connection.execute_many("use_skips", used)

    def beat_list_pending_by_schedule(self, schedule_ids: Iterable[int]) -> list[PendingBeat]:
        return read_pending_beats(self._connection.query("waiting_of", schedule_ids))

    def last_attempt(self, run_id: int) -> LastAttempt | None:
        row = self._connection.query_one("last_attempt", run=run_id)
        if row is None:
            return None
        run, beat, schedule, attempt, status, outcome = row
        return LastAttempt(run, beat, schedule, attempt, RunStatus(status), BeatOutcome(outcome))

    def retry_beat(self, beat_id: int, attempt: int, *, by: str, reason: str, now: datetime) -> None:
        self._connection.execute("retry_beat", id=beat_id, attempt=attempt, by=by, reason=reason, now=to_micros(now))

    def mark_retries(self, runs: Sequence[tuple[int, str]]) -> None:
        self._connection.execute_many("mark_retries", runs)

    def run_request_stop(
        self,
        why: str,  # noqa: ARG002 - as of all that follows: one node has the file, and what it has it stops itself
        *,
        schedules: Sequence[int] = (),  # noqa: ARG002
        runs: Sequence[int] = (),  # noqa: ARG002
        node_id: int = 0,  # noqa: ARG002
        force: bool = False,  # noqa: ARG002
    ) -> list[tuple[int, int]]:
        return []

    def last_backfill(self, schedule_id: int) -> int:
        return int(self._connection.query_one("last_backfill", id=schedule_id)[0])


# Budgets: those that are shared, what a day has used, and what is set aside for runs that are still going.


class SqlBudgetTransaction(SqlRunRequestTransaction):
    def has_budgets(self) -> bool:
        return bool(self._connection.query_one("has_budgets")[0])

    def budgets(self, target_ids: Iterable[int]) -> dict[BudgetOwner, Budget]:
        return read_budgets(self._connection.query("budgets", [FLEET_OWNER.id, *target_ids]))

    def set_budgets(self, budgets: Mapping[BudgetOwner, Budget | None]) -> None:
        kept = [(*holder, dump_json(to_json(budget))) for holder, budget in budgets.items() if budget is not None]
        self._connection.execute_many("set_budgets", kept)
        self._connection.execute_many("drop_budgets", [holder for holder, budget in budgets.items() if budget is None])

    def budget_get_usage(self, accounts: Collection[BudgetDay]) -> dict[BudgetDay, SpendTotals]:
        rows = [_budget_day_columns(each) for each in accounts]
        self._connection.execute_many("open_spend", rows)
        return {_read_budget_day(*row[:3]): SpendTotals(*row[3:]) for row in self._connection.query("spent", rows)}

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        return dict(self._connection.query("last_usage", schedule_ids, limit=limit))

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        rows = [(each.run_id, *_budget_day_columns(each.account), each.tokens, each.usd) for each in reservations]
        self._connection.execute_many("reserve", rows)
        self.add_spend([SpendAdjustment(each.account, 1, each.tokens, each.usd) for each in reservations])

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]:
        return read_reservations(self._connection.query("reservations", run_ids))

    def drop_reservations(self, run_ids: Sequence[int]) -> None:
        self._connection.execute_many("drop_reservations", run_ids)

    def add_spend(self, corrections: Sequence[SpendAdjustment]) -> None:
        self._connection.execute_many(
            "add_spend", [(*_budget_day_columns(each.account), *each[1:]) for each in corrections]
        )

    def drop_spend(self, before: str) -> int:
        return self._connection.execute("drop_spend", before=before)()


def read_reservations(rows: Iterable[Any]) -> list[Reservation]:
    return [Reservation(run, _read_budget_day(*account), tokens, usd) for run, *account, tokens, usd in rows]


def _budget_day_columns(account: BudgetDay) -> tuple[BudgetScope, int, str]:
    return (*account.holder, account.day)


def _read_budget_day(scope: str, number: int, day: str) -> BudgetDay:
    return BudgetDay(BudgetOwner(BudgetScope(scope), number), day)


_MICROSECOND = timedelta(microseconds=1)


class SqlTransaction(SqlBudgetTransaction, ABC):
    """One connection's view of the ledger. Used by the writer thread alone."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._plan = lru_cache(maxsize=4_096)(self._read_plan)

    @abstractmethod
    def _next_beat_ids(self, number: int) -> list[int]:
        """So many ids that no beat has had, in order."""

    @abstractmethod
    def _next_run_ids(self, number: int) -> list[int]: ...

    # ── reading ──

    def due_schedules(self, now: datetime, limit: int) -> list[ScheduleSnapshot]:
        rows = self._connection.query("due_schedules", now=to_micros(now), limit=limit)
        return self._read_snapshots(rows)

    def schedule_list_due_excluding(
        self, now: datetime, limit: int, targets: Iterable[int], since: datetime
    ) -> list[ScheduleSnapshot]:
        rows = self._connection.query("due_beside", targets, now=to_micros(now), since=to_micros(since), limit=limit)
        return self._read_snapshots(rows)

    def schedules(self, ids: Iterable[int]) -> dict[int, ScheduleSnapshot]:
        rows = self._connection.query("some_schedules", ids)
        return {each.id: each for each in self._read_snapshots(rows)}

    def due_beats(self, now: datetime, limit: int) -> list[PendingBeat]:
        rows = self._connection.query("due_beats", now=to_micros(now), limit=limit)
        return read_pending_beats(rows)

    def beat_count_catchup(self, schedule_ids: Iterable[int]) -> dict[int, int]:
        return dict(self._connection.query("paced_beats", schedule_ids))

    def target_get_capacity(self, target_ids: Iterable[int]) -> dict[int, TargetCapacity]:
        return {row[0]: TargetCapacity(*row) for row in self._connection.query("rooms", target_ids)}

    def catchup_get_cursor(self) -> CatchupCursor:
        last, free = self._connection.query_one("pace")
        return CatchupCursor(from_micros(last), from_micros(free))

    def catchup_set_cursor(self, free_at: datetime) -> None:
        self._connection.execute("set_pace", free_at=to_micros(free_at))

    def run_count_active(self) -> int:
        return int(self._connection.query_one("running_in_all")[0])

    def next_wake(self) -> datetime | None:
        micros: int | None = self._connection.query_one("next_wake")[0]
        return from_micros(micros)

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        return {
            run: OpenRun(run, beat, schedule, attempt, target, Source(source), from_micros(due), dedup)
            for run, beat, schedule, attempt, target, source, due, dedup in self._connection.query("open_runs", ids)
        }

    def orphaned_runs(self, node_id: int) -> list[int]:
        return list(self._connection.query("orphaned_runs", node=node_id))

    def gaps(self, since: datetime) -> list[Gap]:
        rows = self._connection.query("gaps", since=to_micros(since))
        return [
            Gap(from_at=from_micros(start), until=from_micros(until), reason=MissedReason(reason))
            for start, until, reason in rows
        ]

    def node_get_last_seen(self) -> datetime | None:
        micros: int | None = self._connection.query_one("last_sign")[0]
        return from_micros(micros)

    def oldest_wake(self) -> datetime | None:
        micros: int | None = self._connection.query_one("oldest_wake")[0]
        return from_micros(micros)

    # ── writing ──

    def join_node(
        self, host: str, pid: int, version: str, now: datetime, labels: Sequence[str] = (), *, works: bool = True
    ) -> int:
        assert works, "the only node of a ledger has to work"
        known = {"host": host, "pid": pid, "version": version, "labels": dump_sanitized(list(labels))}
        self._connection.execute("join_node", **known, now=to_micros(now))
        number: int = self._connection.query_one("node_number")[0]
        return number

    def renew_node(self, node_id: int, now: datetime) -> None:
        self._connection.execute("renew_node", node=node_id, now=to_micros(now))

    def leave_node(self, node_id: int, now: datetime) -> None:
        self._connection.execute("leave_node", node=node_id, now=to_micros(now))

    def set_pause(self, schedule_id: int, pause: Pause | None) -> None:
        self._connection.execute(
            "set_pause",
            id=schedule_id,
            paused=int(pause is not None),
            until=to_micros(pause.until) if pause else None,
            by=pause.by if pause else "",
            reason=pause.reason if pause else "",
        )

    def set_disabled(self, schedule_id: int, by: str | None) -> None:
        self._connection.execute("set_disabled", id=schedule_id, by=by)

    def skip_waiting(self, schedule_id: int, reason: str, now: datetime) -> int:
        (counted,) = self._connection.query_one("count_waiting", id=schedule_id)
        self._connection.execute("skip_waiting", id=schedule_id, reason=reason, now=to_micros(now))
        return int(counted)

    def add_hint(self, schedule_id: int, hint: Hint, now: datetime) -> None:
        rank = hint.origin.partition(":")[0]
        self._connection.execute(
            "end_older_hints", id=schedule_id, rank=rank, is_pace=int(hint.every is not None), now=to_micros(now)
        )
        self._connection.execute(
            "add_hint",
            id=schedule_id,
            origin=hint.origin,
            every=None if hint.every is None else hint.every // _MICROSECOND,
            at=to_micros(hint.at),
            reason=hint.reason,
            expires_at=to_micros(hint.expires_at),
            created_at=to_micros(hint.created_at or now),
        )
        self._connection.execute("count_hints", id=schedule_id)

    def end_hints(self, schedule_id: int, now: datetime, by: str) -> None:
        self._connection.execute("end_hints", id=schedule_id, by=by, now=to_micros(now))
        self._connection.execute("count_hints", id=schedule_id)

    def add_gap(self, gap: Gap) -> None:
        edges = {"from_at": to_micros(gap.from_at), "until": to_micros(gap.until)}
        self._connection.execute("add_gap", **edges, reason=gap.reason)

    def schedule_requeue_future(self, now: datetime) -> None:
        self._connection.execute("pull_back", now=to_micros(now))

    def add_beats(self, beats: Sequence[NewBeat]) -> list[int | None]:
        if not beats:
            return []
        ids = self._next_beat_ids(len(beats))
        starts, others = split_simple(zip(ids, beats, strict=True), is_simple_start)
        started = self._connection.execute_values("start_beats", [start_row(each) for each in starts])
        added = self._connection.execute_many("add_beats", [(number, *_beat_row(beat)) for number, beat in others])
        if self._has_all_rows(started, len(starts)) and added() == len(others):
            return list(ids)
        pairs = [(beat.schedule_id, beat.dedup_id) for beat in beats]
        stored_ids = {
            (schedule, dedup): number for schedule, dedup, number in self._connection.query("known_beats", pairs)
        }
        return [number if stored_ids.get(pair) == number else None for number, pair in zip(ids, pairs, strict=True)]

    def _has_all_rows(self, touched: RowCount, number: int) -> bool:
        """Whether a write has found as many rows as it should."""
        return touched() == number

    def beat_extend_many(self, beats: Sequence[BeatExtension], now: datetime) -> None:
        settled = to_micros(now)
        self._connection.execute_many(
            "grow_beats", [(beat.id, beat.more, to_micros(beat.last_due_at), settled) for beat in beats]
        )

    def change_beats(self, beats: Sequence[ChangedBeat], now: datetime) -> None:
        settled = to_micros(now)
        ran, others = split_simple(beats, is_simple_settle)
        self._connection.execute_values("settle_beats", [(beat.id,) for beat in ran], now=settled)
        rows = [
            (
                beat.id,
                beat.outcome,
                beat.reason,
                to_micros(beat.wake_at),
                beat.attempt,
                settled if beat.settled else None,
            )
            for beat in others
        ]
        self._connection.execute_many("change_beats", rows)

    def beat_wake_pending(self, target_id: int, room: int, now: datetime) -> None:
        self._connection.execute("wake_waiting", target=target_id, room=room, now=to_micros(now))

    def add_runs(self, runs: Sequence[NewRun], node_id: int, now: datetime) -> list[int]:
        if not runs:
            return []
        ids = self._next_run_ids(len(runs))
        rows = [(number, *run) for number, run in zip(ids, runs, strict=True)]
        self._connection.execute_values("add_runs", rows, node=node_id, now=to_micros(now))
        return ids

    def finish_runs(self, runs: Sequence[FinishedRun], now: datetime) -> None:
        finished = to_micros(now)
        succeeded, others = split_simple(runs, is_simple_success)
        self._connection.execute_values("succeed_runs", [success_row(run) for run in succeeded], now=finished)
        self._connection.execute_many("finish_runs", [_finished_row(run, finished) for run in others])

    def schedule_mark_started(self, started: Sequence[tuple[int, datetime]], now: datetime) -> None:
        rows = [(schedule, to_micros(due)) for schedule, due in started]
        self._connection.execute_values("start_paced", rows, now=to_micros(now))

    def schedule_adjust_counters(self, counted: Sequence[CounterDelta], started_at: datetime | None) -> None:
        self._connection.execute_many("count_schedules", counted, started=to_micros(started_at))

    def change_schedules(self, schedules: Sequence[ChangedSchedule]) -> None:
        rescheduled, others = split_simple(schedules, is_simple_reschedule)
        self._connection.execute_values("go_on", [reschedule_row(each) for each in rescheduled])
        self._connection.execute_many("change_schedules", [_schedule_row(each) for each in others])

    def target_adjust_running(self, moves: dict[int, int]) -> None:
        self._connection.execute_values("move_rooms", list(moves.items()))

    def end_one_shots(self, due: Sequence[tuple[int, datetime]], now: datetime) -> None:
        rows = [(schedule, to_micros(moment)) for schedule, moment in due]
        self._connection.execute_many("end_one_shots", rows, now=to_micros(now))

    def _read_snapshots(self, rows: list[Any]) -> list[ScheduleSnapshot]:
        try:
            return [read_snapshot(row, self._plan) for row in rows]
        except Exception:  # noqa: BLE001 - one of them cannot be read: look again, one by one
            return [read_snapshot_safely(row, self._plan) for row in rows]

    def _read_plan(self, plan_id: int) -> ScheduleSpec:
        (text,) = self._connection.query_one("plan_text", id=plan_id)
        return read_plan(text)


def _beat_row(beat: NewBeat) -> tuple[object, ...]:
    return (
        *beat[:3],
        to_micros(beat.due_at),
        to_micros(beat.last_due_at),
        *beat[5:12],
        to_micros(beat.wake_at),
        to_micros(beat.created_at),
        to_micros(beat.settled_at),
    )


def _finished_row(run: FinishedRun, finished: int) -> tuple[object, ...]:
    outcome = run.outcome
    return (
        run.run_id,
        outcome.status,
        to_micros(run.started_at),
        finished,
        outcome.code,
        outcome.error or None,
        None if outcome.response is None else dump_sanitized(outcome.response),
        outcome.summary or None,
        dump_sanitized(dict(outcome.usage)) if outcome.usage else None,
        outcome.session or None,
        run.log,
        outcome.note or None,
    )


def _schedule_row(each: ChangedSchedule) -> tuple[object, ...]:
    return (
        each.id,
        to_micros(each.next_run_at),
        to_micros(each.next_due_at),
        each.next_source,
        each.next_origin,
        each.next_trace,
        to_micros(each.wake_at),
        to_micros(each.anchor_at),
        to_micros(each.settled_until),
        int(each.is_new),
        *each[10:16],
        to_micros(each.last_started_at),
        to_micros(each.last_run_at),
        *each[18:],
    )
