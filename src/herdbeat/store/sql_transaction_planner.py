"""The part of the transaction that is about the planner."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from herdbeat.domain.planner import PlannerSession
from herdbeat.store.planner_reader import dump_record
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros

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
