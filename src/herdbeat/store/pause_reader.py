"""Reading planned pauses. A part of the reader of the ledger."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from herdbeat.domain.planned_pause import PauseWindow, PlannedPause
from herdbeat.domain.selection import Selection
from herdbeat.store.record_mapping import read_window
from herdbeat.timestamps import from_micros, to_micros


class PauseReader(ABC):
    """A base of `Reader`, which knows how to query."""

    @abstractmethod
    def _query(self, statement: str, **values: object) -> list[Any]: ...

    def planned_pauses(
        self, now: datetime, *, include_past: bool = False, limit: int = 100, pause_id: int | None = None
    ) -> list[PlannedPause]:
        """Return planned pauses, the current and coming ones first."""
        rows = self._query(
            "list_planned_pauses", all=int(include_past), now=to_micros(now), limit=limit, id=pause_id or 0
        )
        return [read_planned_pause(row) for row in rows]

    def pause_windows(self, now: datetime) -> dict[int, tuple[PauseWindow, ...]]:
        """Return the current and coming planned pauses of each schedule that has any."""
        found: dict[int, tuple[PauseWindow, ...]] = {}
        for schedule_id, *window in self._query("windows_of_schedules", now=to_micros(now)):
            found[schedule_id] = (*found.get(schedule_id, ()), read_window(window))
        return found


def read_planned_pause(row: Sequence[Any]) -> PlannedPause:
    number, selection, from_at, until, by, reason, created_at, ended_at, ended_by, schedules = row
    written = json.loads(selection)
    return PlannedPause(
        id=number,
        selection=Selection(
            names=tuple(written["names"]),
            tags=tuple(written["tags"]),
            groups=tuple(written["groups"]),
            everything=bool(written["everything"]),
        ),
        from_at=from_micros(from_at),
        until=from_micros(until),
        by=by,
        reason=reason,
        created_at=from_micros(created_at),
        ended_at=None if ended_at is None else from_micros(ended_at),
        ended_by=ended_by,
        schedules=schedules,
    )
