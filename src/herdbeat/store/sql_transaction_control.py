"""The part of the SQL transaction for what changes the pace of schedules: planned pauses, rules and the planner."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from herdbeat.domain.planned_pause import PauseWindow, PlannedPause
from herdbeat.domain.planner import PlannerSession
from herdbeat.domain.rule_state import RuleState
from herdbeat.domain.selection import Selection
from herdbeat.store.pause_reader import read_planned_pause
from herdbeat.store.planner_reader import dump_record
from herdbeat.store.rows import PausableSchedule, RuleEntry
from herdbeat.store.sanitize import dump_sanitized, sanitize_text
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros


class SqlRules:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def rule_states(self, schedule_ids: Iterable[int]) -> dict[int, dict[str, RuleState]]:
        found: dict[int, dict[str, RuleState]] = {}
        for schedule_id, rule, matches, active, fired_at in self._connection.query("states_of_rules", schedule_ids):
            state = RuleState(matches=matches, is_active=bool(active), fired_at=from_micros(fired_at))
            found.setdefault(schedule_id, {})[rule] = state
        return found

    def rule_replace_states(self, entries: Sequence[RuleEntry], now: datetime) -> None:
        self._connection.execute_many("drop_rule_states", sorted({each.schedule_id for each in entries}))
        self._connection.execute_values("add_rule_states", list(map(_rule_columns, entries)), now=to_micros(now))

    def schedule_find(self, target: str, name: str) -> int | None:
        found = [(number, each) for number, each in self._connection.query("schedules_of_target", target=target)]
        named = [number for number, each in found if each == name]
        if named or name or not found:
            return named[0] if named else None
        defaults = [number for number, each in found if each == "default"]
        return defaults[0] if defaults else found[0][0] if len(found) == 1 else None

    def beat_payload(self, beat_id: int) -> dict[str, object]:
        row = self._connection.query_one("payload_of_beat", id=beat_id)
        data = json.loads(row[0]) if row is not None and row[0] else {}
        return data if isinstance(data, dict) else {}


def _rule_columns(entry: RuleEntry) -> tuple[object, ...]:
    state, step = entry.state, entry.step
    remembered = state.matches, int(state.is_active), to_micros(state.fired_at)
    reads = dump_sanitized({path: _to_plain(value) for path, value in step.reads.items()})
    error = sanitize_text(step.error)  # it may quote the data
    return entry.schedule_id, step.rule, *remembered, str(step.outcome), reads, error, entry.run_id


def _to_plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


PLANNER_SESSION_KEPT = timedelta(days=30)


class SqlPlanner:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def planner_take_group(self, groups: Iterable[str], now: datetime, until: datetime) -> str | None:
        due: list[tuple[datetime, str]] = []
        for name in groups:
            self._connection.execute("add_planner_group", group_name=name, now=to_micros(now))
            (next_at,) = self._connection.query_one("planner_group_due", group_name=name)
            due.append((from_micros(next_at), name))
        for next_at, name in sorted(due):
            if next_at <= now:
                taken = self._connection.execute(
                    "take_planner_group", group_name=name, now=to_micros(now), until=to_micros(until)
                )
                if taken() > 0:
                    return name
        return None

    def planner_add_session(self, session: PlannerSession) -> None:
        self._connection.execute(
            "add_planner_session",
            group_name=session.group,
            model=session.model,
            status=str(session.status),
            started_at=to_micros(session.started_at),
            finished_at=to_micros(session.finished_at),
            next_at=to_micros(session.next_at),
            input_tokens=session.input_tokens,
            output_tokens=session.output_tokens,
            usd=session.usd,
            record=dump_record(session),
        )
        self._connection.execute("set_planner_group", group_name=session.group, next_at=to_micros(session.next_at))
        self._connection.execute("drop_planner_sessions", before=to_micros(session.finished_at - PLANNER_SESSION_KEPT))


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
        closed = self._connection.execute("close_windows", before=to_micros(before), now=to_micros(now))
        if closed():  # counting reads every schedule
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
