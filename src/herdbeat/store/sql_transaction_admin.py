"""Targets, schedules and plans: what `apply` reads and writes."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.schedule import display_name
from herdbeat.store.base import NextRunColumns, ScheduleRow, TargetRow
from herdbeat.store.microseconds import from_micros, to_micros
from herdbeat.store.rows import CounterCheck, DeletedBeats, EnabledInFile, PendingBeat, TargetCounterCheck
from herdbeat.store.statements import Connection, dump_sanitized

T = TypeVar("T")

CHUNK_ROWS = 2_000
"""Rows of one statement: a hundred thousand schedules as one JSON text would be held in memory twice."""


class SqlFleetTransaction:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fleet_name(self) -> str | None:
        row = self._connection.query_one("fleet_name")
        return None if row is None else str(row[0])

    def fleet_claim_name(self, name: str) -> str:
        """One process has the ledger, and its fleet may be given another name."""
        self._connection.execute("take_fleet_name", fleet=name)
        return name

    def plan_find_many(self, texts: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for chunk in _split_chunks(dict.fromkeys(texts)):
            found |= dict(self._connection.query("known_plans", chunk))
        return found

    def plan_upsert_many(self, texts: Iterable[str]) -> dict[str, int]:
        wanted = dict.fromkeys(texts)
        for chunk in _split_chunks(wanted):
            self._connection.execute_many("add_plans", chunk)
        return self.plan_find_many(wanted)

    def targets(self) -> dict[str, tuple[int, TargetRow]]:
        return {row[1]: (row[0], TargetRow(*row[1:])) for row in self._connection.query("targets")}

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
        found: dict[tuple[int, str], tuple[int, ScheduleRow]] = {}
        for chunk in _split_chunks(target_ids):
            for number, *row in self._connection.query("schedules_of", chunk):
                stored = ScheduleRow._make(row)._replace(enabled=bool(row[-1]))
                found[stored.target_id, stored.name] = (number, stored)
        return found

    def add_schedules(self, rows: Sequence[tuple[ScheduleRow, NextRunColumns]], now: datetime) -> None:
        for chunk in _split_chunks(rows):
            written = [(*row[:6], int(row.enabled), *_next_run_columns(next_run)) for row, next_run in chunk]
            self._connection.execute_many("add_schedules", written, now=to_micros(now))

    def edit_schedules(self, rows: Sequence[tuple[int, ScheduleRow, NextRunColumns]], now: datetime) -> None:
        for chunk in _split_chunks(rows):
            written = [
                (number, *row[:6], int(row.enabled), *_next_run_columns(next_run)) for number, row, next_run in chunk
            ]
            self._connection.execute_many("edit_schedules", written, now=to_micros(now))

    def schedule_update_origin(self, rows: Sequence[tuple[int, str]]) -> None:
        for chunk in _split_chunks(rows):
            self._connection.execute_many("move_schedules", chunk)

    def remove_schedules(self, ids: Sequence[int], now: datetime) -> None:
        self._connection.execute_many("remove_schedules", ids, now=to_micros(now))
        self._connection.execute_many("expire_waiting", ids, now=to_micros(now))


def _next_run_columns(next_run: NextRunColumns) -> tuple[object, ...]:
    return (
        to_micros(next_run.next_run_at),
        to_micros(next_run.next_due_at),
        next_run.next_source,
        next_run.next_origin,
        next_run.next_trace,
        to_micros(next_run.wake_at),
    )


def _split_chunks(rows: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, CHUNK_ROWS)):
        yield chunk


# What people and machines change: the record of it, and what only a change by hand touches.


_MICROSECOND = timedelta(microseconds=1)


class SqlChangeTransaction(SqlFleetTransaction):
    def add_changes(self, changes: Sequence[Change]) -> None:
        texts = _ChangeDataEncoder()
        for start in range(0, len(changes), CHUNK_ROWS):
            self._connection.execute_many(
                "add_changes", [_change_row(each, texts) for each in changes[start : start + CHUNK_ROWS]]
            )

    def drop_changes(self, before: datetime, most: int, limit: int) -> int:
        return self._connection.execute("drop_changes", before=to_micros(before), most=most, limit=limit)()

    def schedule_get_enabled(self, ids: Iterable[int]) -> dict[int, EnabledInFile]:
        rows = self._connection.query("switches", ids)
        return {
            number: EnabledInFile(display_name(target, name), bool(enabled), origin)
            for number, target, name, enabled, origin in rows
        }

    def schedule_rearm(self, ids: Sequence[int]) -> None:
        self._connection.execute_many("arm_again", ids)

    def schedule_reset_failures(self, schedule_id: int) -> None:
        self._connection.execute("forget_failures", id=schedule_id)

    def extend_hint(self, schedule_id: int, hint: Hint, now: datetime) -> bool:
        row_count = self._connection.execute(
            "extend_hint",
            id=schedule_id,
            origin=hint.origin,
            reason=hint.reason,
            every=None if hint.every is None else hint.every // _MICROSECOND,
            at=to_micros(hint.at),
            expires_at=to_micros(hint.expires_at),
            now=to_micros(now),
        )
        return row_count() > 0

    def hint_end_by_rank(self, schedule_id: int, ranks: Sequence[str], now: datetime, by: str) -> None:
        self._connection.execute_many("end_hints_of", ranks, id=schedule_id, now=to_micros(now), by=by)
        self._connection.execute("count_hints", id=schedule_id)

    def hint_count_recent(self, schedule_id: int, origin: str, since: datetime) -> int:
        (found,) = self._connection.query_one("recent_hints", id=schedule_id, origin=origin, since=to_micros(since))
        return int(found)

    def trim_hints(self, schedule_id: int, rank: str, now: datetime, *, one_shots: int, ended: int) -> None:
        self._connection.execute("end_surplus_one_shots", id=schedule_id, rank=rank, most=one_shots, now=to_micros(now))
        self._connection.execute("forget_ended_hints", id=schedule_id, most=ended)
        self._connection.execute("count_hints", id=schedule_id)


class _ChangeDataEncoder:
    """Facts as JSON. The first start of a large fleet says the same of thousands: that is written once."""

    def __init__(self) -> None:
        self._encoded: dict[int, str] = {}

    def encode(self, facts: ChangeData | None) -> str | None:
        if facts is None:
            return None
        if id(facts) not in self._encoded:
            self._encoded[id(facts)] = dump_sanitized(dict(facts))
        return self._encoded[id(facts)]


def _change_row(change: Change, texts: _ChangeDataEncoder) -> tuple[object, ...]:
    before, after = texts.encode(change.before), texts.encode(change.after)
    return to_micros(change.at), change.who, change.what, change.subject, before, after


# Looking closely, mending and removing: the side of the ledger that the scan and retention work on.


class SqlMaintenanceTransaction(SqlChangeTransaction):
    def schedule_count_open(self, ids: Iterable[int]) -> dict[int, CounterCheck]:
        return {row[0]: CounterCheck(*row) for row in self._connection.query("tallies", ids)}

    def target_count_running(self, ids: Iterable[int]) -> list[TargetCounterCheck]:
        return [TargetCounterCheck(*row) for row in self._connection.query("target_tallies", ids)]

    def target_list_stalled(self, ids: Iterable[int], now: datetime) -> list[TargetCounterCheck]:
        return [TargetCounterCheck(*row) for row in self._connection.query("deaf_targets", ids, now=to_micros(now))]

    def beat_list_stuck(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        return [(number, label) for number, label in self._connection.query("sleeping_beats", ids)]

    def set_counters(self, rows: Sequence[tuple[int, int, int]]) -> None:
        self._connection.execute_many("set_counters", rows)

    def target_set_running(self, rows: Sequence[tuple[int, int]]) -> None:
        self._connection.execute_many("set_rooms", rows)

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
        self._connection.execute("set_marks", now=to_micros(now))

    def run_list_by_beat(self, beat_ids: Iterable[int]) -> list[tuple[int, datetime, datetime]]:
        rows = self._connection.query("runs_of_beats", beat_ids)
        return [(run, from_micros(claimed), from_micros(ended)) for run, claimed, ended in rows]

    def drop_beats(self, ids: Sequence[int]) -> DeletedBeats:
        runs = self.run_list_by_beat(ids)
        self._connection.execute_many("drop_runs", [run for run, _, _ in runs])
        self._connection.execute_many("forget_tails", ids)
        beats = self._connection.execute_many("drop_beats", ids)
        return DeletedBeats(beats(), runs)

    def drop_plans(self, ids: Sequence[int]) -> int:
        return self._connection.execute_many("drop_plans", ids)()

    def drop_nodes(self, before: datetime) -> int:
        return self._connection.execute("drop_nodes", before=to_micros(before))()

    def drop_hints(self, ended_before: datetime, limit: int) -> int:
        return self._connection.execute("drop_hints", before=to_micros(ended_before), limit=limit)()


def read_pending_beats(rows: list[Any]) -> list[PendingBeat]:
    return [
        PendingBeat(beat, schedule, target, dedup, from_micros(due), reason, _read_source(source), origin, *last)
        for beat, schedule, target, dedup, due, reason, source, origin, *last in rows
    ]


def _read_source(word: str) -> Source:
    """A word that this version does not know is somebody else's: such a beat moves no clock, like one by hand."""
    try:
        return Source(word)
    except ValueError:
        return Source.MANUAL
