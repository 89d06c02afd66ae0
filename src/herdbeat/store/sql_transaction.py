"""The transaction of a store that speaks SQL: each method is a named statement with a whole batch of rows.

This file has the hot path: claim, complete, nodes and budgets. `sql_transaction_agents` has what only agents and work
items need, `sql_transaction_messages` incoming calls and outgoing messages, `sql_transaction_control` planned pauses,
rules and the planner, `sql_transaction_admin` the rest.
Which dialect the statements are in, and how a batch gets there, is up to the connection.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from herdbeat.domain.beat import Gap
from herdbeat.domain.budget import FLEET_OWNER, BudgetDay, BudgetOwner, Reservation, SpendAdjustment, SpendTotals
from herdbeat.domain.codec import to_json
from herdbeat.domain.policies import Budget
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.platform import ProcessOrigin
from herdbeat.store.record_mapping import read_budgets, read_gaps, read_plan
from herdbeat.store.row_mapping import (
    budget_day_columns,
    changed_beat_columns,
    changed_schedule_columns,
    finished_run_columns,
    is_simple_reschedule,
    is_simple_settle,
    is_simple_start,
    is_simple_success,
    new_beat_columns,
    read_budget_day,
    read_open_run,
    read_pending_beats,
    read_reservations,
    read_snapshots,
    simple_reschedule_columns,
    simple_start_columns,
    split_simple,
)
from herdbeat.store.rows import (
    BeatExtension,
    CatchupCursor,
    ChangedBeat,
    ChangedSchedule,
    CounterDelta,
    FinishedRun,
    Gate,
    NewBeat,
    NewRun,
    OlderNode,
    OpenRun,
    PendingBeat,
    RareGates,
    ScheduleSnapshot,
    StartedInterval,
    TargetCapacity,
)
from herdbeat.store.sanitize import dump_json, dump_sanitized
from herdbeat.store.sql_transaction_admin import SqlAdministration
from herdbeat.store.sql_transaction_agents import SqlAgentTools, SqlWorkClaims
from herdbeat.store.sql_transaction_control import SqlPauses, SqlPlanner, SqlRules
from herdbeat.store.sql_transaction_messages import SqlEpisodes, SqlOutbox, SqlWebhooks
from herdbeat.store.sql_transaction_remote import SqlRemoteRuns
from herdbeat.store.statements import Connection, RowCount
from herdbeat.timestamps import from_micros, to_micros


class SqlTransaction(
    SqlAdministration,
    SqlWorkClaims,
    SqlRules,
    SqlAgentTools,
    SqlOutbox,
    SqlWebhooks,
    SqlEpisodes,
    SqlPauses,
    SqlPlanner,
    SqlRemoteRuns,
    ABC,
):
    """One connection's view of the ledger. Used by the writer thread alone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._plan = lru_cache(maxsize=4_096)(self._read_plan)

    @abstractmethod
    def _next_beat_ids(self, number: int) -> list[int]:
        """Return so many ids that no beat has had, in order."""

    @abstractmethod
    def _next_run_ids(self, number: int) -> list[int]: ...

    # ── schedules ──

    def due_schedules(self, now: datetime, limit: int) -> list[ScheduleSnapshot]:
        return self._read_snapshots(self._connection.query("due_schedules", now=to_micros(now), limit=limit))

    def schedule_list_due_excluding(
        self, now: datetime, limit: int, targets: Iterable[int], since: datetime
    ) -> list[ScheduleSnapshot]:
        rows = self._connection.query("due_excluding", targets, now=to_micros(now), since=to_micros(since), limit=limit)
        return self._read_snapshots(rows)

    def schedules(self, ids: Iterable[int]) -> dict[int, ScheduleSnapshot]:
        snapshots = self._read_snapshots(self._connection.query("schedule_snapshots", ids))
        return {snapshot.id: snapshot for snapshot in snapshots}

    def _read_snapshots(self, rows: list[Any]) -> list[ScheduleSnapshot]:
        return read_snapshots(rows, self._plan)

    def _read_plan(self, plan_id: int) -> ScheduleSpec:
        (text,) = self._connection.query_one("plan_text", id=plan_id)
        return read_plan(text)

    def next_wake(self) -> datetime | None:
        return self._query_time("next_wake")

    def oldest_wake(self) -> datetime | None:
        return self._query_time("oldest_wake")

    def _query_time(self, name: str) -> datetime | None:
        micros: int | None = self._connection.query_one(name)[0]
        return from_micros(micros)

    def schedule_mark_started(self, started: Sequence[StartedInterval], now: datetime) -> None:
        rows = [(snapshot.id, to_micros(due_at)) for snapshot, due_at in started]
        self._connection.execute_values("mark_intervals_started", rows, now=to_micros(now))

    def schedule_adjust_counters(self, counted: Sequence[CounterDelta], started_at: datetime | None) -> None:
        self._connection.execute_many("count_schedules", counted, started=to_micros(started_at))

    def change_schedules(self, schedules: Sequence[ChangedSchedule]) -> None:
        simple, others = split_simple(schedules, is_simple_reschedule)
        self._connection.execute_values("reschedule_simple", [simple_reschedule_columns(change) for change in simple])
        self._connection.execute_many("change_schedules", [changed_schedule_columns(change) for change in others])

    def schedule_consume_skips(self, used: Sequence[tuple[int, int]]) -> None:
        self._connection.execute_many("consume_skips", used)

    def end_one_shots(self, due: Sequence[tuple[int, datetime]], now: datetime) -> None:
        rows = [(schedule, to_micros(moment)) for schedule, moment in due]
        self._connection.execute_many("end_one_shots", rows, now=to_micros(now))

    # ── beats ──

    def due_beats(self, now: datetime, limit: int) -> list[PendingBeat]:
        return read_pending_beats(self._connection.query("due_beats", now=to_micros(now), limit=limit))

    def beat_count_catchup(self, schedule_ids: Iterable[int]) -> dict[int, int]:
        return dict(self._connection.query("count_catchup_beats", schedule_ids))

    def catchup_get_cursor(self) -> CatchupCursor:
        last, free = self._connection.query_one("catchup_cursor")
        return CatchupCursor(from_micros(last), from_micros(free))

    def catchup_set_cursor(self, free_at: datetime) -> None:
        self._connection.execute("set_catchup_cursor", free_at=to_micros(free_at))

    def start_slot_get_cursor(self, now: datetime) -> CatchupCursor:
        last, free = self._connection.query_one("start_slot_cursor", now=to_micros(now))
        return CatchupCursor(from_micros(last), from_micros(free))

    def start_slot_set_cursor(self, free_at: datetime) -> None:
        self._connection.execute("set_start_slot_cursor", free_at=to_micros(free_at))

    def add_beats(self, beats: Sequence[NewBeat]) -> list[int | None]:
        if not beats:
            return []
        ids = self._next_beat_ids(len(beats))
        starts, others = split_simple(zip(ids, beats, strict=True), is_simple_start)
        started = self._connection.execute_values("start_beats", [simple_start_columns(start) for start in starts])
        added = self._connection.execute_many("add_beats", [new_beat_columns(other) for other in others])
        if self._has_all_rows(started, len(starts)) and (not others or added() == len(others)):
            return list(ids)
        pairs = [(beat.schedule_id, beat.dedup_id) for beat in beats]
        rows = self._connection.query("known_beats", pairs)
        stored_ids = {(schedule, dedup): number for schedule, dedup, number in rows}
        return [number if stored_ids.get(pair) == number else None for number, pair in zip(ids, pairs, strict=True)]

    def find_beat(self, schedule_id: int, dedup_id: str) -> int | None:
        rows = self._connection.query("known_beats", [(schedule_id, dedup_id)])
        return next((int(number) for _, _, number in rows), None)

    def _has_all_rows(self, touched: RowCount, number: int) -> bool:
        """Whether a write has touched as many rows as it should."""
        return touched() == number

    def beat_list_recorded(self, windows: Sequence[tuple[int, str, str]]) -> dict[int, list[tuple[datetime, datetime]]]:
        found: dict[int, list[tuple[datetime, datetime]]] = {}
        for schedule_id, first, last in self._connection.query("recorded_beats", windows):
            found.setdefault(schedule_id, []).append((from_micros(first), from_micros(last)))
        return found

    def beat_extend_many(self, beats: Sequence[BeatExtension], now: datetime) -> None:
        settled_at = to_micros(now)
        rows = [(beat.id, beat.more, to_micros(beat.last_due_at), settled_at) for beat in beats]
        self._connection.execute_many("extend_beats", rows)

    def change_beats(self, beats: Sequence[ChangedBeat], now: datetime) -> None:
        settled_at = to_micros(now)
        ran, others = split_simple(beats, is_simple_settle)
        self._connection.execute_values("settle_beats", [(beat.id,) for beat in ran], now=settled_at)
        self._connection.execute_many("change_beats", [changed_beat_columns(beat, settled_at) for beat in others])

    def beat_wake_pending(self, target_id: int, room: int, now: datetime) -> None:
        self._connection.execute("wake_pending_beats", target=target_id, room=room, now=to_micros(now))

    # ── runs ──

    def run_count_active(self) -> int:
        return int(self._connection.query_one("running_in_all")[0])

    def add_runs(self, runs: Sequence[NewRun], node_id: int, now: datetime) -> list[int]:
        if not runs:
            return []
        ids = self._next_run_ids(len(runs))
        rows = [(number, run.beat_id, run.schedule_id, run.attempt) for number, run in zip(ids, runs, strict=True)]
        self._connection.execute_values("add_runs", rows, node=node_id, now=to_micros(now))
        return ids

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        return {run.id: run for run in map(read_open_run, self._connection.query("open_runs", ids))}

    def orphaned_runs(self, node_id: int) -> list[int]:
        return list(self._connection.query("orphaned_runs", node=node_id))

    def finish_runs(self, runs: Sequence[FinishedRun], now: datetime) -> None:
        finished_at = to_micros(now)
        simple, others = split_simple(runs, is_simple_success)
        simple_rows = [(run.run_id, to_micros(run.started_at)) for run in simple]
        self._connection.execute_values("finish_succeeded_runs", simple_rows, now=finished_at)
        self._connection.execute_many("finish_runs", [finished_run_columns(run, finished_at) for run in others])

    # ── targets ──

    def target_get_capacity(self, target_ids: Iterable[int]) -> dict[int, TargetCapacity]:
        return self._read_capacity(self._connection.query("target_capacity", target_ids))

    def _read_capacity(self, rows: list[Any]) -> dict[int, TargetCapacity]:
        return {capacity.target_id: capacity for capacity in map(TargetCapacity._make, rows)}

    def target_adjust_running(self, moves: dict[int, int]) -> None:
        self._connection.execute_values("adjust_running", list(moves.items()))

    # ── gates ──

    def rare_gates(self) -> RareGates:
        return RareGates(*map(bool, self._connection.query_one("rare_gates")))

    # ── nodes ──

    def join_node(
        self,
        host: str,
        pid: int,
        version: str,
        now: datetime,
        labels: Sequence[str] = (),
        *,
        works: bool = True,
        origin: ProcessOrigin | None = None,  # noqa: ARG002 - a file has one node, and a lock
    ) -> int:
        assert works, "the only node of a ledger has to work"
        values = {"host": host, "pid": pid, "version": version, "labels": dump_sanitized(list(labels))}
        self._connection.execute("join_node", **values, now=to_micros(now))
        return int(self._connection.query_one("newest_node_id")[0])

    def node_give_up(self, node_ids: Sequence[int]) -> None:
        """Nothing to do: a file has one node, so all others are dead."""

    def node_get_last_seen(self) -> datetime | None:
        return self._query_time("last_seen_at")

    def node_list_older(self, gate: Gate) -> list[OlderNode]:  # noqa: ARG002 - the only node is this program
        return []

    def renew_node(self, node_id: int, now: datetime) -> None:
        self._connection.execute("renew_node", node=node_id, now=to_micros(now))

    def leave_node(self, node_id: int, now: datetime) -> None:
        self._connection.execute("leave_node", node=node_id, now=to_micros(now))

    def node_set_metrics(self, node_id: int, data: str, now: datetime) -> None:
        self._connection.execute("set_node_metrics", node=node_id, now=to_micros(now), data=data)

    def node_drop_metrics(self, before: datetime) -> None:
        self._connection.execute("drop_node_metrics", before=to_micros(before))

    def gaps(self, since: datetime) -> list[Gap]:
        return read_gaps(self._connection.query("gaps", since=to_micros(since)))

    def add_gap(self, gap: Gap) -> None:
        edges = {"from_at": to_micros(gap.from_at), "until": to_micros(gap.until)}
        self._connection.execute("add_gap", **edges, reason=gap.reason)

    # ── budgets ──

    def budgets(self, target_ids: Iterable[int]) -> dict[BudgetOwner, Budget]:
        return read_budgets(self._connection.query("budgets", [FLEET_OWNER.id, *target_ids]))

    def set_budgets(self, budgets: Mapping[BudgetOwner, Budget | None]) -> None:
        kept = [(*owner, dump_json(to_json(budget))) for owner, budget in budgets.items() if budget is not None]
        self._connection.execute_many("set_budgets", kept)
        self._connection.execute_many("drop_budgets", [owner for owner, budget in budgets.items() if budget is None])

    def budget_get_usage(self, accounts: Collection[BudgetDay]) -> dict[BudgetDay, SpendTotals]:
        keys = [budget_day_columns(account) for account in accounts]
        self._connection.execute_many("open_spend", keys)
        rows = self._connection.query("budget_usage", keys)
        return {read_budget_day(scope, number, day): SpendTotals(*totals) for scope, number, day, *totals in rows}

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        return dict(self._connection.query("last_usage", schedule_ids, limit=limit))

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        rows = [(each.run_id, *budget_day_columns(each.account), each.tokens, each.usd) for each in reservations]
        self._connection.execute_many("reserve", rows)
        self.add_spend([SpendAdjustment(each.account, 1, each.tokens, each.usd) for each in reservations])

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]:
        return read_reservations(self._connection.query("reservations", run_ids))

    def drop_reservations(self, run_ids: Sequence[int]) -> None:
        self._connection.execute_many("drop_reservations", run_ids)

    def add_spend(self, corrections: Sequence[SpendAdjustment]) -> None:
        rows = [(*budget_day_columns(each.account), each.runs, each.tokens, each.usd) for each in corrections]
        self._connection.execute_many("add_spend", rows)
