"""The transaction of the PostgreSQL store: that of SQL, under locks that hold across nodes.

Queries that a transaction is going to make are sent as soon as their keys are known: the answers then arrive together
with another one, and cost no round trip.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from herdbeat.errors import ClaimLost
from herdbeat.platform import ProcessOrigin
from herdbeat.store.postgres.migrate import newest_schema
from herdbeat.store.postgres.statements import PostgresConnection, SentStatement
from herdbeat.store.row_mapping import read_pending_beats
from herdbeat.store.rows import (
    CatchupCursor,
    FinishedRun,
    Gate,
    NewBeat,
    OlderNode,
    OpenRun,
    PendingBeat,
    RareGates,
    ScheduleSnapshot,
    TargetCapacity,
    TargetCounterCheck,
    TargetRow,
)
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.store.sql_transaction import SqlTransaction
from herdbeat.store.statements import RowCount
from herdbeat.timestamps import from_micros, to_micros


class _PendingQuery(NamedTuple):
    keys: frozenset[int]
    sent: SentStatement
    after: int


class Prefetcher:
    """Queries of one transaction that were sent ahead. An answer is used only if nothing was written since."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._pending_ids: SentStatement | None = None
        self._beats: list[int] = []
        self._runs: list[int] = []
        self._pending: dict[str, _PendingQuery] = {}

    # ── ids for new rows, which no other node gets ──

    def reserve_ids(self, number: int) -> None:
        """Reserve ids for so many beats, each with a run. Unused ones leave a gap in the numbers."""
        self._pending_ids = self._connection.send_query("next_beat_and_run_ids", number=number)

    def take_beat_ids(self, number: int) -> list[int]:
        self._receive_ids()
        taken, self._beats = self._beats[:number], self._beats[number:]
        return taken + self._fetch_ids("next_beat_ids", number - len(taken))

    def take_run_ids(self, number: int) -> list[int]:
        self._receive_ids()
        taken, self._runs = self._runs[:number], self._runs[number:]
        return taken + self._fetch_ids("next_run_ids", number - len(taken))

    def _receive_ids(self) -> None:
        if self._pending_ids is not None:
            found = self._connection.receive(self._pending_ids)
            self._beats, self._runs = [beat for beat, _ in found], [run for _, run in found]
            self._pending_ids = None

    def _fetch_ids(self, statement: str, number: int) -> list[int]:
        return list(self._connection.query(statement, number=number)) if number else []

    # ── queries ──

    def send(self, statement: str, keys: Iterable[int], **values: object) -> None:
        unique_keys = frozenset(keys)
        if unique_keys:
            self.add(statement, unique_keys, self._connection.send_query(statement, unique_keys, **values))

    def add(self, statement: str, keys: Iterable[int], sent: SentStatement) -> None:
        """Store a sent statement as the answer to another query with these keys."""
        self._pending[statement] = _PendingQuery(frozenset(keys), sent, self._connection.write_count)

    def receive(self, statement: str, keys: Iterable[int] = ()) -> Any:
        """Return the answer; None if it was not sent for exactly these keys, or something was written since."""
        pending = self._pending.pop(statement, None)
        if pending is None or pending.keys != frozenset(keys) or pending.after != self._connection.write_count:
            return None
        return self._connection.receive(pending.sent)


MAX_RESCUED_RUNS = 500
"""Runs of dead nodes that one rescue closes; the next one closes the rest."""

_MICROSECOND = timedelta(microseconds=1)
_GATE_SCHEMAS = {Gate.ACCOUNT_HOLD: 17, Gate.PLANNED_PAUSE: 17, Gate.EXECUTOR: 19, Gate.REFERENCE: 22}
"""The oldest schema whose programs respect a gate. Programs before 17 do not tell theirs, so they count as older."""


class DuplicateBeat(Exception):
    """A beat that was to start is in the ledger already, noticed after its run was written."""


class PostgresTransaction(SqlTransaction):
    """One connection's view of the ledger. `lease` is how long a node keeps its runs without renewing.

    Locks are taken in one order: targets by id, then schedules by id. A claim skips what other nodes have locked.
    """

    def __init__(self, connection: PostgresConnection, lease: timedelta, *, locks: bool = True) -> None:
        super().__init__(connection)
        self._takes_locks = locks
        self._lease = lease // _MICROSECOND
        self._labels: tuple[str, ...] = ()
        self._has_locked_targets = False
        self._locked_schedules: set[int] = set()
        self._pg_connection = connection
        self._prefetch = Prefetcher(connection)
        self._has_event = False
        self.verify_inserts = False
        self.node_id: int | None = None
        self.writes = 0

    def rebind(self, connection: PostgresConnection) -> None:
        """Use another connection. The cache of plans stays."""
        self._connection = self._pg_connection = connection
        self._prefetch = Prefetcher(connection)

    @property
    def has_pending_notify(self) -> bool:
        """Whether other nodes should be notified."""
        return self._has_event or self._pg_connection.has_pending_notify

    def begin(self) -> None:
        self._pg_connection.reset()
        self._prefetch = Prefetcher(self._pg_connection)
        self._has_locked_targets = self._has_event = False
        self._locked_schedules.clear()

    def flush(self) -> None:
        """Wait until all writes are done. Raises the first error."""
        self._pg_connection.flush()

    def _next_beat_ids(self, number: int) -> list[int]:
        return self._prefetch.take_beat_ids(number)

    def _next_run_ids(self, number: int) -> list[int]:
        return self._prefetch.take_run_ids(number)

    def _has_all_rows(self, touched: RowCount, number: int) -> bool:
        """Nearly always true, so do not wait; if not, the session repeats the work with `verify_inserts`."""
        if self.verify_inserts:
            return super()._has_all_rows(touched, number)
        self._pg_connection.expect_row_count(touched, number, DuplicateBeat)
        return True

    def add_beats(self, beats: Sequence[NewBeat]) -> list[int | None]:
        """Notify other nodes of beats by events: this node may have no room, and another may."""
        self._has_event |= any(beat.wake_at is not None and not beat.source.is_clock for beat in beats)
        return super().add_beats(beats)

    def finish_runs(self, runs: Sequence[FinishedRun], now: datetime) -> None:
        super().finish_runs(runs, now)
        self._connection.execute_many("keep_output", [(run.run_id, run.output) for run in runs if run.output])

    def change_targets(self, rows: Sequence[tuple[int, TargetRow]]) -> None:
        """Change the fleet version too: other nodes cache targets until it differs."""
        super().change_targets(rows)
        self._connection.execute("bump_catalogue_version")

    def add_targets(self, rows: Sequence[TargetRow]) -> list[int]:
        """A removed target may return with another spec, so the fleet version changes."""
        self._connection.execute("bump_catalogue_version")
        return super().add_targets(rows)

    # ── what is due, and not locked by another node ──

    def due_schedules(self, now: datetime, limit: int) -> list[ScheduleSnapshot]:
        number, targets = self._lock_due_targets("targets_due", now, limit)
        if number and not targets:
            targets = self._wait_first_target(now)
        if targets:
            self._prefetch.reserve_ids(number)
        return self._claim_due(targets, now, limit, since=0)

    def schedule_list_due_excluding(
        self, now: datetime, limit: int, targets: Iterable[int], since: datetime
    ) -> list[ScheduleSnapshot]:
        first = to_micros(since)
        _, free = self._lock_due_targets("targets_due_excluding", now, limit, beside=list(targets), since=first)
        return self._claim_due(free, now, limit, since=first)

    def due_beats(self, now: datetime, limit: int) -> list[PendingBeat]:
        _, targets = self._lock_due_targets("targets_of_due_beats", now, limit)
        found = self._connection.query("take_due_beats", targets, limit=limit, **self._claim_values(now))
        self._locked_schedules.update(schedule for _, schedule in found)
        return read_pending_beats(self._connection.query("pending_beats_by_id", [beat for beat, _ in found]))

    def _claim_due(self, targets: list[int], now: datetime, limit: int, *, since: int) -> list[ScheduleSnapshot]:
        rows = self._connection.query("take_due", targets, limit=limit, since=since, **self._claim_values(now))
        found = self._read_snapshots(rows)
        self._locked_schedules.update(each.id for each in found)
        target_ids = {each.target_id for each in found}
        self._prefetch.send("target_capacity", target_ids)
        if target_ids:
            self._prefetch.add("rare_gates", (), self._pg_connection.send_query("rare_gates"))
        return found

    def _lock_due_targets(self, statement: str, now: datetime, limit: int, **more: object) -> tuple[int, list[int]]:
        number, targets = self._connection.query_one(statement, limit=limit, **self._claim_values(now), **more)
        self._has_locked_targets |= bool(targets)
        return number, targets or []

    def _wait_first_target(self, now: datetime) -> list[int]:
        """Wait for one target when other nodes have locked all that are due, instead of polling.

        Only while this transaction holds no lock: so no other node can be waiting for it.
        """
        if self._has_locked_targets:
            return []
        first = self._connection.query_one("first_target_due", now=to_micros(now))
        return [] if first is None else list(self._connection.query("lock_targets", first))

    def _claim_values(self, now: datetime) -> dict[str, object]:
        return {"now": to_micros(now), "labels": self._labels}

    def run_count_active(self) -> int:
        """Take the first lock of a claim, so it may wait: nodes check the fleet's limit one after the other."""
        self._connection.query("lock_fleet_limit")
        return super().run_count_active()

    def catchup_get_cursor(self) -> CatchupCursor:
        """Read after waiting for the lock: its last holder has just taken slots."""
        self._connection.query("lock_catchup_cursor")
        return super().catchup_get_cursor()

    def start_slot_get_cursor(self, now: datetime) -> CatchupCursor:
        self._connection.query("lock_catchup_cursor")
        return super().start_slot_get_cursor(now)

    def next_wake(self) -> datetime | None:
        micros: int | None
        (micros,) = self._prefetch.receive("next_wake") or self._connection.query_one("next_wake", labels=self._labels)
        return from_micros(micros)

    def target_get_capacity(self, target_ids: Iterable[int]) -> dict[int, TargetCapacity]:
        wanted = list(target_ids)
        rows = self._prefetch.receive("target_capacity", wanted)
        if rows is None:
            # A completion: if no beat waits for the freed room, the next wake is the only query left.
            self._prefetch.send("target_capacity", wanted)
            self._prefetch.add("next_wake", (), self._pg_connection.send_query("next_wake", labels=self._labels))
            rows = self._prefetch.receive("target_capacity", wanted) or []
        return self._read_capacity(rows)

    def rare_gates(self) -> RareGates:
        """Ask the database at every claim instead of remembering: another node may just have changed it."""
        rows = self._prefetch.receive("rare_gates")
        return super().rare_gates() if rows is None else RareGates(*rows[0])

    # ── rows under their locks ──

    def schedules(self, ids: Iterable[int]) -> dict[int, ScheduleSnapshot]:
        """Lock them and their targets: a transaction reads schedules in order to change them."""
        wanted = list(ids)
        missing = [each for each in wanted if each not in self._locked_schedules]
        self._lock_rows("lock_targets_of_schedules", missing)
        self._locked_schedules.update(self._lock_rows("lock_schedules", missing))
        rows = self._prefetch.receive("schedule_snapshots", wanted)
        if rows is None:
            return super().schedules(wanted)
        known = set(wanted)
        return {snapshot.id: snapshot for snapshot in self._read_snapshots(rows) if snapshot.id in known}

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        """Lock their targets and schedules: a rescue may be closing the same runs."""
        wanted = list(ids)
        if not self._takes_locks or not wanted:
            return super().open_runs(wanted)
        self._pg_connection.send_query("lock_targets_of_runs", wanted)
        self._pg_connection.send_query("lock_schedules_of_runs", wanted)
        snapshots = self._pg_connection.send_query("schedules_of_runs", wanted)
        found = super().open_runs(wanted)
        schedules = {run.schedule_id for run in found.values()}
        self._locked_schedules |= schedules
        self._prefetch.add("schedule_snapshots", schedules, snapshots)
        return found

    def _lock_rows(self, statement: str, ids: Iterable[int]) -> list[int]:
        """Wait for these rows. A transaction that only reads takes no locks."""
        return list(self._connection.query(statement, ids)) if self._takes_locks else []

    def target_count_running(self, ids: Iterable[int]) -> list[TargetCounterCheck]:
        """Lock first and count in a second query: a query that waits for a lock counts what was before."""
        wanted = list(ids)
        self._lock_rows("lock_targets", wanted)
        return super().target_count_running(wanted)

    def target_list_stalled(self, ids: Iterable[int], now: datetime) -> list[TargetCounterCheck]:
        wanted = list(ids)
        self._lock_rows("lock_targets", wanted)
        return super().target_list_stalled(wanted, now)

    def lock_definitions(self) -> None:
        """Until the end of the transaction. Two servers that read before either had written both created one name."""
        self._connection.query("lock_apply")

    def lock_request(self, request_id: str) -> None:
        """Until the end of the transaction, when its result can be read."""
        self._connection.query("lock_request", request=request_id)

    def fleet_claim_name(self, name: str) -> str:
        """Only one node applies at a time, until the end of its transaction."""
        self.lock_definitions()
        self._connection.execute("claim_fleet_name", fleet=name)
        return self.fleet_name() or name

    def run_request_stop(
        self,
        why: str,
        *,
        schedules: Sequence[int] = (),
        runs: Sequence[int] = (),
        node_id: int = 0,
        force: bool = False,
    ) -> list[tuple[int, int]]:
        values: dict[str, object] = {"why": why, "node": node_id, "force": int(force)}
        query = self._connection.query
        requested = [
            *query("request_stop_of_schedules", schedules, **values),
            *query("request_stop_of_runs", runs, **values),
        ]
        self._has_event |= bool(requested)
        return requested

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
        origin: ProcessOrigin | None = None,
    ) -> int:
        """From here on this connection writes as that node, and only while the node has its lease."""
        known = {"host": host, "pid": pid, "version": version, "labels": dump_sanitized(list(labels))}
        lease = {"lease": self._lease, "works": int(works), "schema": newest_schema()}
        number = int(self._connection.query_one("join_node", **known, now=to_micros(now), **lease)[0])
        if origin is not None:
            self._connection.execute("set_node_origin", node=number, **origin._asdict())
            self._has_event = True  # neighbours begin to watch its process
        self.node_id, self._labels = number, tuple(labels)
        return number

    def node_give_up(self, node_ids: Sequence[int]) -> None:
        self._connection.execute("give_up_nodes", nodes=list(node_ids))

    def node_get_last_seen(self) -> datetime | None:
        """Return until when any node could run anything, which may lie in the future."""
        self._connection.query("lock_join")
        return super().node_get_last_seen()

    def node_list_older(self, gate: Gate) -> list[OlderNode]:
        rows = self._connection.query("older_nodes", schema=_GATE_SCHEMAS[gate])
        return [OlderNode(*row) for row in rows]

    def renew_node(self, node_id: int, now: datetime) -> None:
        if not self._connection.execute("renew_node", node=node_id, now=to_micros(now), lease=self._lease)():
            raise lease_lost_error(node_id)

    def leave_node(self, node_id: int, now: datetime) -> None:
        super().leave_node(node_id, now)
        if node_id == self.node_id:
            self.node_id = None

    def _pull_nodes_back(self, now: datetime) -> None:
        self._connection.execute("move_nodes_back", now=to_micros(now), lease=self._lease)

    def orphaned_runs(self, node_id: int) -> list[int]:
        """Return open runs of nodes that have stopped or whose lease has lapsed; those are marked as stopped here.

        Once any are found, one node rescues at a time: two that read together adopted the same run, and each wrote a
        part of its log.
        """
        self._connection.execute("give_up_dead_nodes", node=node_id)
        if not self._connection.query("orphaned_runs", node=node_id, limit=1):
            return []
        self._connection.query("lock_rescue")
        return list(self._connection.query("orphaned_runs", node=node_id, limit=MAX_RESCUED_RUNS))

    def assert_lease(self) -> None:
        """Begin a write of a node. If its lease was lost meanwhile, the next answer raises ClaimLost."""
        if self.node_id is None:
            return
        self.writes += 1
        node_id = self.node_id
        held = self._pg_connection.execute("assert_lease", node=node_id, writes=self.writes)
        self._pg_connection.expect_row_count(held, 1, lambda: lease_lost_error(node_id))

    def has_committed(self, node_id: int) -> bool:
        """Whether the last transaction of a node was committed, queried over another connection.

        `node_id` is that of the transaction's begin: a node that left in it has none any more.
        """
        row = self._connection.query_one("last_write", node=node_id)
        return row is not None and row[0] == self.writes


def lease_lost_error(node_id: int) -> ClaimLost:
    message = f"Node {node_id} has lost its lease; other nodes may have taken over its runs."
    return ClaimLost(message, hint="The node stops its runs and rejoins.")
