"""The part of the SQL transaction off the hot path: commands by hand, hints, apply, the change log, maintenance."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.hint import Hint
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.schedule import display_name
from herdbeat.governor.state import Pause
from herdbeat.store.row_mapping import hint_values, read_pending_beats, schedule_columns
from herdbeat.store.rows import (
    CounterCheck,
    DeletedBeats,
    EnabledInFile,
    LastAttempt,
    NextRunColumns,
    PendingBeat,
    RangeRow,
    ScheduleRow,
    TargetCounterCheck,
    TargetRow,
)
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.store.sql_transaction_agents import SqlAgents
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros

T = TypeVar("T")

CHUNK_ROWS = 2_000
"""Rows of one statement: a hundred thousand schedules as one JSON text would be held in memory twice."""

_MICROSECOND = timedelta(microseconds=1)


class SqlAdministration(SqlAgents):
    """The base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    # ── commands on schedules, beats and runs ──

    def set_pause(self, schedule_id: int, pause: Pause | None) -> None:
        until, by, reason = (to_micros(pause.until), pause.by, pause.reason) if pause else (None, "", "")
        paused = int(pause is not None)
        self._connection.execute("set_pause", id=schedule_id, paused=paused, until=until, by=by, reason=reason)

    def set_disabled(self, schedule_id: int, by: str | None) -> None:
        self._connection.execute("set_disabled", id=schedule_id, by=by)

    def set_skips(self, schedule_id: int, skips: int, by: str, reason: str) -> None:
        self._connection.execute("set_skips", id=schedule_id, skips=skips, by=by, reason=reason)

    def schedule_get_enabled(self, ids: Iterable[int]) -> dict[int, EnabledInFile]:
        rows = self._connection.query("enabled_in_file", ids)
        return {
            number: EnabledInFile(display_name(target, name), bool(enabled), origin)
            for number, target, name, enabled, origin in rows
        }

    def schedule_rearm(self, ids: Sequence[int]) -> None:
        self._connection.execute_many("rearm_schedules", ids)

    def schedule_reset_failures(self, schedule_id: int) -> None:
        self._connection.execute("reset_failures", id=schedule_id)

    def beat_list_pending_by_schedule(self, schedule_ids: Iterable[int]) -> list[PendingBeat]:
        return read_pending_beats(self._connection.query("pending_beats_of_schedules", schedule_ids))

    def skip_waiting(self, schedule_id: int, reason: str, now: datetime) -> int:
        (counted,) = self._connection.query_one("count_waiting", id=schedule_id)
        self._connection.execute("skip_waiting", id=schedule_id, reason=reason, now=to_micros(now))
        return int(counted)

    def retry_beat(self, beat_id: int, attempt: int, *, by: str, reason: str, now: datetime) -> None:
        self._connection.execute("retry_beat", id=beat_id, attempt=attempt, by=by, reason=reason, now=to_micros(now))

    def rename_beats(self, beats: Sequence[tuple[int, str]]) -> None:
        self._connection.execute_many("rename_beats", beats)

    def last_backfill(self, schedule_id: int) -> int:
        return int(self._connection.query_one("last_backfill", id=schedule_id)[0])

    def last_attempt(self, run_id: int) -> LastAttempt | None:
        row = self._connection.query_one("last_attempt", run=run_id)
        if row is None:
            return None
        run, beat, schedule, attempt, status, outcome = row
        return LastAttempt(run, beat, schedule, attempt, RunStatus(status), BeatOutcome(outcome))

    def mark_retries(self, runs: Sequence[tuple[int, str]]) -> None:
        self._connection.execute_many("mark_retries", runs)

    def run_request_stop(
        self,
        why: str,  # noqa: ARG002 - and all that follow: a file has one node, which stops its own runs itself
        *,
        schedules: Sequence[int] = (),  # noqa: ARG002
        runs: Sequence[int] = (),  # noqa: ARG002
        node_id: int = 0,  # noqa: ARG002
        force: bool = False,  # noqa: ARG002
    ) -> list[tuple[int, int]]:
        return []

    # ── hints ──

    def add_hint(self, schedule_id: int, hint: Hint, now: datetime) -> None:
        rank, is_pace = hint.origin.partition(":")[0], int(hint.every is not None)
        created_at = to_micros(hint.created_at or now)
        self._connection.execute("end_older_hints", id=schedule_id, rank=rank, is_pace=is_pace, now=to_micros(now))
        self._connection.execute("add_hint", id=schedule_id, **hint_values(hint), created_at=created_at)
        self._connection.execute("count_hints", id=schedule_id)

    def extend_hint(self, schedule_id: int, hint: Hint, now: datetime) -> bool:
        extended = self._connection.execute("extend_hint", id=schedule_id, **hint_values(hint), now=to_micros(now))
        return extended() > 0

    def hint_end_by_rank(self, schedule_id: int, ranks: Sequence[str], now: datetime, by: str) -> None:
        self._connection.execute_many("end_hints_of", ranks, id=schedule_id, now=to_micros(now), by=by)
        self._connection.execute("count_hints", id=schedule_id)

    def hint_restore(self, schedule_id: int, changed_at: datetime, now: datetime, by: str) -> None:
        values = {"id": schedule_id, "changed_at": to_micros(changed_at), "now": to_micros(now), "by": by}
        self._connection.execute("end_given_hints", **values)
        self._connection.execute("revive_hints", **values)
        self._connection.execute("count_hints", id=schedule_id)

    def hint_count_recent(self, schedule_id: int, origin: str, since: datetime) -> int:
        (count,) = self._connection.query_one("recent_hints", id=schedule_id, origin=origin, since=to_micros(since))
        return int(count)

    def trim_hints(self, schedule_id: int, rank: str, now: datetime, *, one_shots: int, ended: int) -> None:
        self._connection.execute("end_surplus_one_shots", id=schedule_id, rank=rank, most=one_shots, now=to_micros(now))
        self._connection.execute("forget_ended_hints", id=schedule_id, most=ended)
        self._connection.execute("count_hints", id=schedule_id)

    # ── apply ──

    def fleet_name(self) -> str | None:
        row = self._connection.query_one("fleet_name")
        return None if row is None else str(row[0])

    def fleet_claim_name(self, name: str) -> str:
        """One process owns a file, and may rename its fleet."""
        self._connection.execute("claim_fleet_name", fleet=name)
        return name

    def variables(self) -> list[str]:
        return self._read_texts("variables")

    def set_variables(self, names: Collection[str], *, is_whole: bool) -> None:
        stored = set(self.variables())
        variables = set(names) if is_whole else stored.union(names)
        if variables != stored:
            self._connection.execute("set_variables", variables=json.dumps(sorted(variables)))

    def old_secrets(self) -> list[str]:
        return self._read_texts("secrets")

    def delete_old_secrets(self) -> None:
        if self.old_secrets():
            for statement in ("delete_secrets", "delete_secret_plans", "clear_sent_specs", "clear_settled_specs"):
                self._connection.execute(statement)

    def _read_texts(self, statement: str) -> list[str]:
        row = self._connection.query_one(statement)
        texts: list[str] = json.loads(row[0]) if row is not None else []
        return texts

    def plan_find_many(self, texts: Iterable[str]) -> dict[str, int]:
        ids: dict[str, int] = {}
        for chunk in _split_chunks(dict.fromkeys(texts)):
            ids |= dict(self._connection.query("known_plans", chunk))
        return ids

    def plan_upsert_many(self, texts: Iterable[str]) -> dict[str, int]:
        wanted = dict.fromkeys(texts)
        for chunk in _split_chunks(wanted):
            self._connection.execute_many("add_plans", chunk)
        return self.plan_find_many(wanted)

    def lock_definitions(self) -> None:
        """A ledger in a file has one writer at a time: nothing to do."""

    def targets(self) -> dict[str, tuple[int, TargetRow]]:
        return {
            name: (number, TargetRow(name, kind, spec, origin, max_concurrent, hooks))
            for number, name, kind, spec, origin, max_concurrent, hooks in self._connection.query("targets")
        }

    def add_targets(self, rows: Sequence[TargetRow]) -> list[int]:
        ids: dict[str, int] = {}
        for chunk in _split_chunks(rows):
            self._connection.execute_many("add_targets", chunk)
            ids |= dict(self._connection.query("ids_of_targets", [row.name for row in chunk]))
        return [ids[row.name] for row in rows]

    def change_targets(self, rows: Sequence[tuple[int, TargetRow]]) -> None:
        for chunk in _split_chunks(rows):
            self._connection.execute_many("change_targets", [(number, *row) for number, row in chunk])

    def remove_targets(self, ids: Sequence[int], now: datetime) -> None:
        self._connection.execute_many("remove_targets", ids, now=to_micros(now))

    def schedule_list_by_target(self, target_ids: Iterable[int]) -> dict[tuple[int, str], tuple[int, ScheduleRow]]:
        stored: dict[tuple[int, str], tuple[int, ScheduleRow]] = {}
        for chunk in _split_chunks(target_ids):
            rows = self._connection.query("schedules_of", chunk)
            for number, target, name, kind, plan, brief, origin, enabled in rows:
                stored[target, name] = number, ScheduleRow(target, name, kind, plan, brief, origin, bool(enabled))
        return stored

    def add_schedules(self, rows: Sequence[tuple[ScheduleRow, NextRunColumns]], now: datetime) -> None:
        for chunk in _split_chunks(rows):
            new = [schedule_columns(row, next_run) for row, next_run in chunk]
            self._connection.execute_many("add_schedules", new, now=to_micros(now))

    def edit_schedules(self, rows: Sequence[tuple[int, ScheduleRow, NextRunColumns]], now: datetime) -> None:
        for chunk in _split_chunks(rows):
            edited = [(number, *schedule_columns(row, next_run)) for number, row, next_run in chunk]
            self._connection.execute_many("edit_schedules", edited, now=to_micros(now))

    def schedule_update_origin(self, rows: Sequence[tuple[int, str]]) -> None:
        for chunk in _split_chunks(rows):
            self._connection.execute_many("move_schedules", chunk)

    def remove_schedules(self, ids: Sequence[int], now: datetime) -> None:
        self._connection.execute_many("remove_schedules", ids, now=to_micros(now))
        self._connection.execute_many("expire_waiting", ids, now=to_micros(now))

    # ── changes ──

    def add_changes(self, changes: Sequence[Change]) -> None:
        encoder = _ChangeDataEncoder()
        for chunk in _split_chunks(changes):
            self._connection.execute_many("add_changes", [encoder.change_columns(change) for change in chunk])

    def drop_changes(self, before: datetime, most: int, limit: int) -> int:
        return self._connection.execute("drop_changes", before=to_micros(before), most=most, limit=limit)()

    # ── tokens, and the results of commands ──

    def add_token(
        self, name: str, digest: str, scope: str, *, by: str, now: datetime, expires_at: datetime | None
    ) -> None:
        times = {"created_at": to_micros(now), "expires_at": to_micros(expires_at)}
        self._connection.execute("add_token", token=name, digest=digest, scope=scope, created_by=by, **times)

    def token_in_force(self, name: str, now: datetime) -> bool:
        row = self._connection.query_one("token_in_force", token=name)
        return row is not None and (row[1] is None or row[1] > to_micros(now))

    def revoke_token(self, name: str, by: str, now: datetime) -> bool:
        return self._connection.execute("revoke_token", token=name, by=by, now=to_micros(now))() > 0

    def lock_request(self, request_id: str) -> None:
        """A ledger in a file has one writer at a time: nothing to do."""

    def request_result(self, request_id: str) -> str | None:
        row = self._connection.query_one("request_result", id=request_id)
        return None if row is None else str(row[0])

    def add_request(self, request_id: str, now: datetime, result: str) -> None:
        self._connection.execute("add_request", id=request_id, now=to_micros(now), result=result)

    def drop_requests(self, before: datetime, limit: int) -> int:
        return self._connection.execute("drop_requests", before=to_micros(before), limit=limit)()

    # ── repair ──

    def schedule_count_open(self, ids: Iterable[int]) -> dict[int, CounterCheck]:
        return {check.id: check for check in map(CounterCheck._make, self._connection.query("tallies", ids))}

    def target_count_running(self, ids: Iterable[int]) -> list[TargetCounterCheck]:
        return [TargetCounterCheck(*row) for row in self._connection.query("target_tallies", ids)]

    def target_list_stalled(self, ids: Iterable[int], now: datetime) -> list[TargetCounterCheck]:
        return [TargetCounterCheck(*row) for row in self._connection.query("stalled_targets", ids, now=to_micros(now))]

    def beat_list_stuck(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        return [(number, label) for number, label in self._connection.query("stuck_beats", ids)]

    def set_counters(self, rows: Sequence[tuple[int, int, int]]) -> None:
        self._connection.execute_many("set_counters", rows)

    def target_set_running(self, rows: Sequence[tuple[int, int]]) -> None:
        self._connection.execute_many("set_running", rows)

    def wake_beats(self, ids: Sequence[int], now: datetime) -> None:
        self._connection.execute_many("wake_beats", ids, now=to_micros(now))

    def wake_schedules(self, ids: Sequence[int], now: datetime) -> None:
        self._connection.execute_many("wake_schedules", ids, now=to_micros(now))

    def pending_beats(self, limit: int) -> list[PendingBeat]:
        return read_pending_beats(self._connection.query("pending_beats", limit=limit))

    def unfinished_runs(self, limit: int) -> list[int]:
        return list(self._connection.query("unfinished_runs", limit=limit))

    def schedule_ids(self, after: int, limit: int) -> list[int]:
        return list(self._connection.query("schedule_ids", after=after, limit=limit))

    def schedule_settle_all(self, now: datetime) -> None:
        self._connection.execute("settle_all_schedules", now=to_micros(now))

    # ── retention ──

    def run_list_by_beat(self, beat_ids: Iterable[int]) -> list[tuple[int, datetime, datetime]]:
        rows = self._connection.query("runs_of_beats", beat_ids)
        return [(run, from_micros(claimed), from_micros(ended)) for run, claimed, ended in rows]

    def schedule_latest_mark(self) -> datetime | None:
        micros: int | None = self._connection.query_one("latest_settled_until")[0]
        return from_micros(micros)

    def withdraw_future(self, now: datetime, step: timedelta) -> None:
        micros = to_micros(now)
        for statement in (
            "rearm_withdrawn",
            "requeue_future_schedules",
            "withdraw_beats",
            "cut_gaps",
            "drop_future_gaps",
        ):
            self._connection.execute(statement, now=micros)
        for statement in ("move_beats_back", "move_holds_back"):
            self._connection.execute(statement, now=micros, step=step // _MICROSECOND)
        self._pull_nodes_back(now)

    def _pull_nodes_back(self, now: datetime) -> None:
        self._connection.execute("move_nodes_back", now=to_micros(now))

    def beat_list_across(self, now: datetime, last_id: str) -> list[RangeRow]:
        rows = self._connection.query("beats_across", now=to_micros(now), last_id=last_id)
        return [RangeRow(beat, schedule, from_micros(due_at), number) for beat, schedule, due_at, number in rows]

    def beat_cut_many(self, rows: Sequence[tuple[int, int, datetime]]) -> None:
        self._connection.execute_many("cut_beats", [(beat, number, to_micros(last)) for beat, number, last in rows])

    def drop_beats(self, ids: Sequence[int]) -> DeletedBeats:
        runs = self.run_list_by_beat(ids)
        self._drop_agent_runs([run for run, _, _ in runs])
        self._connection.execute_many("drop_runs", [run for run, _, _ in runs])
        self._connection.execute_many("clear_tails", ids)
        beats = self._connection.execute_many("drop_beats", ids)
        return DeletedBeats(beats(), runs)

    def drop_plans(self, ids: Sequence[int]) -> int:
        return self._connection.execute_many("drop_plans", ids)()

    def drop_nodes(self, before: datetime) -> int:
        return self._connection.execute("drop_nodes", before=to_micros(before))()

    def drop_hints(self, ended_before: datetime, limit: int) -> int:
        return self._connection.execute("drop_hints", before=to_micros(ended_before), limit=limit)()

    def drop_spend(self, before: str) -> int:
        return self._connection.execute("drop_spend", before=before)()


class _ChangeDataEncoder:
    """Change data as JSON. The first start of a large fleet repeats the same data thousands of times: encoded once."""

    def __init__(self) -> None:
        self._encoded: dict[int, str] = {}

    def change_columns(self, change: Change) -> tuple[object, ...]:
        before, after = self._encode(change.before), self._encode(change.after)
        return to_micros(change.at), change.who, change.what, change.subject, before, after

    def _encode(self, data: ChangeData | None) -> str | None:
        if data is None:
            return None
        if id(data) not in self._encoded:
            self._encoded[id(data)] = dump_sanitized(dict(data))
        return self._encoded[id(data)]


def _split_chunks(rows: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, CHUNK_ROWS)):
        yield chunk
