"""Looking closely, mending and removing: the side of the ledger that the scan and retention work on."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from herdbeat.domain.decision import Source
from herdbeat.store.changes import SqlChanges
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.rows import Dropped, Tally, TargetTally, WaitingBeat


class SqlUpkeep(SqlChanges):
    def tallies(self, ids: Iterable[int]) -> dict[int, Tally]:
        return {row[0]: Tally(*row) for row in self._statements.ask("tallies", ids)}

    def target_tallies(self, ids: Iterable[int]) -> list[TargetTally]:
        return [TargetTally(*row) for row in self._statements.ask("target_tallies", ids)]

    def deaf_targets(self, ids: Iterable[int], now: datetime) -> list[TargetTally]:
        return [TargetTally(*row) for row in self._statements.ask("deaf_targets", ids, now=to_micros(now))]

    def sleeping_beats(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        return [(number, label) for number, label in self._statements.ask("sleeping_beats", ids)]

    def set_counters(self, rows: Sequence[tuple[int, int, int]]) -> None:
        self._statements.tell("set_counters", rows)

    def set_rooms(self, rows: Sequence[tuple[int, int]]) -> None:
        self._statements.tell("set_rooms", rows)

    def wake_beats(self, ids: Sequence[int], now: datetime) -> None:
        self._statements.tell("wake_beats", ids, now=to_micros(now))

    def wake_schedules(self, ids: Sequence[int], now: datetime) -> None:
        self._statements.tell("wake_schedules", ids, now=to_micros(now))

    def pending_beats(self, limit: int) -> list[WaitingBeat]:
        return read_waiting(self._statements.ask("pending_beats", limit=limit))

    def unfinished_runs(self, limit: int) -> list[int]:
        return list(self._statements.ask("unfinished_runs", limit=limit))

    def schedule_ids(self, after: int, limit: int) -> list[int]:
        return list(self._statements.ask("schedule_ids", after=after, limit=limit))

    def set_marks(self, now: datetime) -> None:
        self._statements.do("set_marks", now=to_micros(now))

    def runs_of(self, beat_ids: Iterable[int]) -> list[tuple[int, datetime, datetime]]:
        rows = self._statements.ask("runs_of_beats", beat_ids)
        return [(run, from_micros(claimed), from_micros(ended)) for run, claimed, ended in rows]

    def drop_beats(self, ids: Sequence[int]) -> Dropped:
        runs = self.runs_of(ids)
        self._statements.tell("drop_runs", [run for run, _, _ in runs])
        self._statements.tell("forget_tails", ids)
        beats = self._statements.tell("drop_beats", ids)
        return Dropped(beats(), runs)

    def drop_plans(self, ids: Sequence[int]) -> int:
        return self._statements.tell("drop_plans", ids)()

    def drop_nodes(self, before: datetime) -> int:
        return self._statements.do("drop_nodes", before=to_micros(before))()

    def drop_hints(self, ended_before: datetime, limit: int) -> int:
        return self._statements.do("drop_hints", before=to_micros(ended_before), limit=limit)()


def read_waiting(rows: list[Any]) -> list[WaitingBeat]:
    return [
        WaitingBeat(beat, schedule, target, dedup, from_micros(due), reason, _source(source), origin, *last)
        for beat, schedule, target, dedup, due, reason, source, origin, *last in rows
    ]


def _source(word: str) -> Source:
    """A word that this version does not know is somebody else's: such a beat moves no clock, like one by hand."""
    try:
        return Source(word)
    except ValueError:
        return Source.MANUAL
