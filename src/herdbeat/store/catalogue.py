"""Targets, schedules and plans: what `apply` reads and writes."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from herdbeat.store.base import NextRunColumns, ScheduleRow, TargetRow
from herdbeat.store.micros import to_micros
from herdbeat.store.statements import Connection

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

    def plan_upsert_many(self, texts: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for chunk in _split_chunks(dict.fromkeys(texts)):
            self._connection.execute_many("add_plans", chunk)
            found |= dict(self._connection.query("known_plans", chunk))
        return found

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
