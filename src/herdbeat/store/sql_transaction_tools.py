"""The part of the SQL transaction for what agents say through our own tools."""

from datetime import datetime, timedelta

from herdbeat.domain.agent_tools import AgentHint, RunReport
from herdbeat.domain.hint import Hint
from herdbeat.store.agent_tools_reader import dump_report, read_agent_hint, read_report
from herdbeat.store.row_mapping import read_hint
from herdbeat.store.statements import Connection
from herdbeat.timestamps import to_micros

AGENT_HINT_KEPT = timedelta(days=40)
"""Longer than any hint lives."""

RUN_REPORT_KEPT = timedelta(days=8)
"""Longer than any run takes. The completion of a run has taken its report over long before."""


class SqlAgentTools:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def agent_hints(self, schedule_id: int, now: datetime) -> list[AgentHint]:
        rows = self._connection.query("list_agent_hints", schedule=schedule_id, now=to_micros(now))
        return [read_agent_hint(row) for row in rows]

    def agent_hint_add(
        self, schedule_id: int, origin: str, *, run_id: int, is_wake: bool, request: str, note: str, now: datetime
    ) -> int:
        (hint_id,) = self._connection.query_one("newest_hint", schedule=schedule_id, origin=origin)
        self._connection.execute(
            "add_agent_hint",
            hint=hint_id,
            schedule=schedule_id,
            run=run_id,
            is_wake=int(is_wake),
            request=request,
            note=note,
            now=to_micros(now),
        )
        self._connection.execute("drop_agent_hints", schedule=schedule_id, before=to_micros(now - AGENT_HINT_KEPT))
        return int(hint_id)

    def agent_hint_count_wakes(self, schedule_id: int, since: datetime) -> int:
        (count,) = self._connection.query_one("count_wakes", schedule=schedule_id, since=to_micros(since))
        return int(count)

    def hint_end(self, schedule_id: int, hint_id: int, now: datetime, by: str) -> None:
        self._connection.execute("end_hint", schedule=schedule_id, hint=hint_id, by=by, now=to_micros(now))
        self._connection.execute("count_hints", id=schedule_id)

    def hint_find(self, schedule_id: int, hint_id: int, now: datetime) -> Hint | None:
        row = self._connection.query_one("find_hint", schedule=schedule_id, hint=hint_id, now=to_micros(now))
        return None if row is None else read_hint(row)

    def run_report(self, run_id: int) -> RunReport | None:
        row = self._connection.query_one("run_report", run=run_id)
        return None if row is None else read_report(row[0])

    def wake_note(self, run_id: int) -> str:
        row = self._connection.query_one("notes_of_run", run=run_id)
        return "" if row is None else str(row[0])

    def run_report_set(self, run_id: int, report: RunReport, now: datetime) -> None:
        self._connection.execute("set_run_report", run=run_id, report=dump_report(report), now=to_micros(now))
        self._connection.execute("drop_run_reports", run=run_id, before=to_micros(now - RUN_REPORT_KEPT))

    def run_key_claim(self, value: str) -> str:
        self._connection.execute("set_run_key", value=value)
        (stored,) = self._connection.query_one("run_key")
        return str(stored)
