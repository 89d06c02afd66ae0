"""Targets, schedules and plans: what `apply` reads and writes."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from herdbeat.store.base import ScheduleRow, TargetRow, Timed
from herdbeat.store.micros import to_micros
from herdbeat.store.statements import Statements

T = TypeVar("T")

CHUNK = 2_000
"""Rows of one statement: a hundred thousand schedules as one JSON text would be held in memory twice."""


class SqlCatalogue:
    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def fleet_name(self) -> str | None:
        row = self._statements.ask_one("fleet_name")
        return None if row is None else str(row[0])

    def take_fleet_name(self, name: str) -> str:
        """One process has the ledger, and its fleet may be given another name."""
        self._statements.do("take_fleet_name", fleet=name)
        return name

    def plans(self, texts: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for chunk in _chunks(dict.fromkeys(texts)):
            self._statements.tell("add_plans", chunk)
            found |= dict(self._statements.ask("known_plans", chunk))
        return found

    def targets(self) -> dict[str, tuple[int, TargetRow]]:
        return {row[1]: (row[0], TargetRow(*row[1:])) for row in self._statements.ask("targets")}

    def add_targets(self, rows: Sequence[TargetRow]) -> list[int]:
        ids: dict[str, int] = {}
        for chunk in _chunks(rows):
            self._statements.tell("add_targets", chunk)
            ids |= dict(self._statements.ask("ids_of_targets", [row.name for row in chunk]))
        return [ids[row.name] for row in rows]

    def change_targets(self, rows: Sequence[tuple[int, TargetRow]]) -> None:
        for chunk in _chunks(rows):
            self._statements.tell("change_targets", [(number, *row) for number, row in chunk])

    def remove_targets(self, ids: Sequence[int], now: datetime) -> None:
        self._statements.tell("remove_targets", ids, now=to_micros(now))

    def schedules_of(self, target_ids: Iterable[int]) -> dict[tuple[int, str], tuple[int, ScheduleRow]]:
        found: dict[tuple[int, str], tuple[int, ScheduleRow]] = {}
        for chunk in _chunks(target_ids):
            for number, *row in self._statements.ask("schedules_of", chunk):
                stored = ScheduleRow._make(row)._replace(enabled=bool(row[-1]))
                found[stored.target_id, stored.name] = (number, stored)
        return found

    def add_schedules(self, rows: Sequence[tuple[ScheduleRow, Timed]], now: datetime) -> None:
        for chunk in _chunks(rows):
            written = [(*row[:6], int(row.enabled), *_time(timed)) for row, timed in chunk]
            self._statements.tell("add_schedules", written, now=to_micros(now))

    def edit_schedules(self, rows: Sequence[tuple[int, ScheduleRow, Timed]], now: datetime) -> None:
        for chunk in _chunks(rows):
            written = [(number, *row[:6], int(row.enabled), *_time(timed)) for number, row, timed in chunk]
            self._statements.tell("edit_schedules", written, now=to_micros(now))

    def move_schedules(self, rows: Sequence[tuple[int, str]]) -> None:
        for chunk in _chunks(rows):
            self._statements.tell("move_schedules", chunk)

    def remove_schedules(self, ids: Sequence[int], now: datetime) -> None:
        self._statements.tell("remove_schedules", ids, now=to_micros(now))
        self._statements.tell("expire_waiting", ids, now=to_micros(now))


def _time(timed: Timed) -> tuple[object, ...]:
    return (
        to_micros(timed.next_run_at),
        to_micros(timed.next_due_at),
        timed.next_source,
        timed.next_origin,
        timed.next_trace,
        to_micros(timed.wake_at),
    )


def _chunks(rows: Iterable[T]) -> Iterator[list[T]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK)):
        yield chunk
