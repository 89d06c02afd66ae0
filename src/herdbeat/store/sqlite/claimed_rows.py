"""What a claim hands to the completion, so that it is not read again: the schedules and runs that it has started.

Only one process writes to a SQLite ledger, and all of it goes through one connection. So a row that was claimed here is
known until this connection changes it, or, by mistake, another one. Whatever may have changed it forgets it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from herdbeat.store.rows import NewRun, OpenRun, ScheduleSnapshot, StartedInterval

T = TypeVar("T")

MAX_CLAIMED_ROWS = 20_000
"""Beyond that everything is forgotten. A node rarely has so many active runs."""

KNOWN_WRITES = frozenset(
    {
        *("start_paced", "go_on", "change_schedules", "count_schedules", "add_runs", "succeed_runs", "finish_runs"),
        *("start_beats", "add_beats", "settle_beats", "change_beats", "grow_beats", "wake_waiting", "move_rooms"),
        *("set_pace", "set_places", "renew_node"),
    }
)
"""Writes after which the rows are still known: those of the first line are followed here, the others change nothing
that is kept. Any other write forgets all rows."""

_WRITE_PATTERN = re.compile(r"^(?!\s*--).*\b(INSERT|UPDATE|DELETE|REPLACE)\b", re.MULTILINE)


def find_foreign_writes(statements: Mapping[str, str]) -> frozenset[str]:
    """Return the names of statements that may change a claimed row without being followed here."""
    return frozenset(
        name for name, text in statements.items() if name not in KNOWN_WRITES and _WRITE_PATTERN.search(text)
    )


class ClaimedRows:
    """Schedules and runs as the ledger has them since their claim. Used by the writer thread alone."""

    def __init__(self) -> None:
        self._schedules: dict[int, ScheduleSnapshot] = {}
        self._runs: dict[int, OpenRun] = {}

    def forget_all(self) -> None:
        self._schedules.clear()
        self._runs.clear()

    def forget_schedules(self, ids: Iterable[int]) -> None:
        for each in ids:
            self._schedules.pop(each, None)

    def forget_runs(self, ids: Iterable[int]) -> None:
        for each in ids:
            self._runs.pop(each, None)

    def add_schedules(self, started: Iterable[StartedInterval]) -> None:
        """Remember intervals after `start_paced`. One whose row of skips has ended just now is read again."""
        if len(self._schedules) > MAX_CLAIMED_ROWS:
            self._schedules.clear()
        for snapshot, due_at in started:
            if snapshot.tail_id is not None:
                self._schedules.pop(snapshot.id, None)
                continue
            self._schedules[snapshot.id] = snapshot._replace(
                next_run_at=None,
                next_due_at=None,
                wake_at=None,
                running=snapshot.running + 1,
                settled_until=max(snapshot.settled_until, due_at),
                recorded=(),
            )

    def add_runs(self, ids: Iterable[int], runs: Iterable[NewRun]) -> None:
        if len(self._runs) > MAX_CLAIMED_ROWS:
            self._runs.clear()
        for number, (beat_id, schedule_id, attempt, target_id, source, limited) in zip(ids, runs, strict=True):
            if source is not None:
                run = OpenRun(number, beat_id, schedule_id, attempt, target_id, source, False, limited)
                self._runs[number] = run

    def find_schedules(self, ids: Iterable[int]) -> tuple[dict[int, ScheduleSnapshot], list[int]]:
        """Return those that are known, and the ids of the others."""
        return _find(self._schedules, ids)

    def find_runs(self, ids: Iterable[int]) -> tuple[dict[int, OpenRun], list[int]]:
        return _find(self._runs, ids)


def _find(known: Mapping[int, T], ids: Iterable[int]) -> tuple[dict[int, T], list[int]]:
    found: dict[int, T] = {}
    missing: list[int] = []
    for each in ids:
        row = known.get(each)
        if row is None:
            missing.append(each)
        else:
            found[each] = row
    return found, missing
