"""Looking closely, mending and removing: the side of the ledger that the scan and retention work on."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from herdbeat.domain.decision import Source
from herdbeat.store.changes import SqlChangeTransaction
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.rows import CounterCheck, DeletedBeats, PendingBeat, TargetCounterCheck


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
