"""Reading the sessions of the planner. A part of the reader of the ledger."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from herdbeat.domain.codec import from_json, to_json
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.timestamps import from_micros, to_micros
from herdbeat.triggers import load_trigger

if TYPE_CHECKING:
    from herdbeat.domain.planner import PlannerSession, PlannerUsage


class PlannerReader(ABC):
    """A base of `Reader`, which knows how to query."""

    @abstractmethod
    def _query(self, statement: str, **values: object) -> list[Any]: ...

    def planner_sessions(
        self, group: str = "", *, before: int | None = None, limit: int = 50, session_id: int | None = None
    ) -> "list[PlannerSession]":
        """Return sessions of all groups or of one, the newest first."""
        rows = self._query(
            "list_planner_sessions", group_name=group, id=session_id or 0, before=before or 0, limit=limit
        )
        return [read_session(row) for row in rows]

    def planner_usage(self, since: datetime) -> "PlannerUsage":
        """Return what sessions have used since a moment."""

        from herdbeat.domain.planner import PlannerUsage  # noqa: PLC0415 - few commands need it

        sessions, tokens, usd = self._query("planner_usage", since=to_micros(since))[0]
        return PlannerUsage(sessions=int(sessions), tokens=int(tokens), usd=float(usd))


def read_session(row: Sequence[Any]) -> "PlannerSession":
    from herdbeat.domain.planner import PlannedAction, PlannerSession, SessionStatus, ToolUse  # noqa: PLC0415 - few commands need it

    number, group, model, status, started_at, finished_at, next_at, input_tokens, output_tokens, usd, text = row
    record = json.loads(text)
    return PlannerSession(
        id=number,
        group=group,
        model=model,
        status=SessionStatus(status),
        started_at=from_micros(started_at),
        finished_at=from_micros(finished_at),
        next_at=from_micros(next_at),
        reasoning=record["reasoning"],
        actions=tuple(from_json(PlannedAction, each, load_trigger) for each in record["actions"]),
        calls=tuple(from_json(ToolUse, each, load_trigger) for each in record["calls"]),
        warnings=tuple(record["warnings"]),
        error=record["error"],
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        usd=usd,
    )


def dump_record(session: "PlannerSession") -> str:
    return dump_sanitized(
        {
            "reasoning": session.reasoning,
            "actions": [to_json(each) for each in session.actions],
            "calls": [to_json(each) for each in session.calls],
            "warnings": list(session.warnings),
            "error": session.error,
        }
    )
