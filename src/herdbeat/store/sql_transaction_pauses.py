"""The part of the transaction that is about planned pauses, and about leases of what one node does for all."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from herdbeat.domain.planned_pause import PauseWindow, PlannedPause
from herdbeat.domain.selection import Selection
from herdbeat.store.pause_reader import read_planned_pause
from herdbeat.store.rows import PausableSchedule
from herdbeat.store.statements import Connection
from herdbeat.timestamps import to_micros


class SqlPauses:
    """A base of `SqlTransaction`, which sets the connection and reads plans."""

    _connection: Connection
    _plan: Any

    def pause_plan(
        self, selection: Selection, *, from_at: datetime, until: datetime, by: str, reason: str, now: datetime
    ) -> int:
        text = json.dumps(
            {
                "names": selection.names,
                "tags": selection.tags,
                "groups": selection.groups,
                "everything": selection.everything,
            }
        )
        self._connection.execute(
            "add_planned_pause",
            selection=text,
            from_at=to_micros(from_at),
            until=to_micros(until),
            by=by,
            reason=reason,
            now=to_micros(now),
        )
        (number,) = self._connection.query_one("newest_planned_pause")
        return int(number)

    def planned_pauses(self, now: datetime, pause_id: int | None = None) -> list[PlannedPause]:
        rows = self._connection.query("planned_pauses", now=to_micros(now), id=pause_id or 0)
        return sorted((read_planned_pause(row) for row in rows), key=lambda each: each.id)

    def pausable_schedules(self) -> list[PausableSchedule]:
        rows = self._connection.query("pausable_schedules")
        return [
            PausableSchedule(number, target, name, self._plan(plan).policies) for number, target, name, plan in rows
        ]

    def pause_hold(self, pause: PlannedPause, schedule_ids: Sequence[int]) -> None:
        rows = [(number, pause.id, to_micros(pause.until)) for number in schedule_ids]
        self._connection.execute_many("add_paused_schedules", rows)
        self._connection.execute_many("count_windows", list(schedule_ids))
        self._connection.execute_many("wake_for_window", list(schedule_ids), at=to_micros(pause.from_at))

    def pause_end(self, pause: PlannedPause, now: datetime, by: str) -> None:
        held = [int(each) for each in self._connection.query("paused_schedules", id=pause.id)]
        self._connection.execute("end_planned_pause", id=pause.id, now=to_micros(now), by=by)
        self._end_windows([(each, pause.id, to_micros(pause.from_at)) for each in held], now)
        if pause.from_at <= now:
            self._connection.execute_many("wake_for_window", held, at=to_micros(now))
            self._connection.execute_many("wake_paused_events", held, now=to_micros(now))

    def windows_end(self, schedule_id: int, windows: Sequence[PauseWindow], now: datetime) -> None:
        self._end_windows([(schedule_id, each.id, to_micros(each.from_at)) for each in windows], now)

    def _end_windows(self, rows: Sequence[tuple[int, int, int]], now: datetime) -> None:
        self._connection.execute_many("end_windows", rows, now=to_micros(now))
        self._connection.execute_many("count_windows", [schedule_id for schedule_id, _, _ in rows])

    def pause_drop(self, now: datetime, before: datetime, limit: int) -> int:
        self._connection.execute("close_windows", before=to_micros(before), now=to_micros(now))
        self._connection.execute("count_closed_windows")
        dropped = self._connection.execute("drop_planned_pauses", before=to_micros(before), limit=limit)()
        if dropped:
            self._connection.execute("drop_paused_schedules")
        return dropped

    def lease_take(self, name: str, holder: str, now: datetime, until: datetime) -> bool:
        taken = self._connection.execute(
            "take_lease", lease=name, holder=holder, now=to_micros(now), until=to_micros(until)
        )
        return taken() > 0
