"""Reading what agents say through our own tools. A part of the reader of the ledger."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from herdbeat.domain.codec import from_json, to_json
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.timestamps import from_micros, to_micros
from herdbeat.triggers import load_trigger

if TYPE_CHECKING:
    from herdbeat.domain.agent_tools import AgentHint, RunReport

MAX_WAKE_CHAIN = 100
"""How many wakes one after another are followed back to the event that began them."""


class AgentToolsReader(ABC):
    """A base of `Reader`, which knows how to query."""

    @abstractmethod
    def _query(self, statement: str, **values: object) -> list[Any]: ...

    def agent_hints(self, schedule_id: int, now: datetime) -> "list[AgentHint]":
        """Return the wakes and the pace of an agent that are in force, the oldest first."""
        return [
            read_agent_hint(row) for row in self._query("active_agent_hints", schedule=schedule_id, now=to_micros(now))
        ]

    def count_wakes(self, schedule_id: int, since: datetime) -> int:
        """Return how many wakes were asked for since a moment, those that were replaced too."""
        return int(self._query("count_wakes", schedule=schedule_id, since=to_micros(since))[0][0])

    def wake_note(self, run_id: int) -> str:
        """Return the note of the wake that a run is the answer to; empty if there is none."""
        return next((note for note, _ in self._query("notes_of_run", run=run_id)), "")

    def wake_data(self, run_id: int) -> str | None:
        """Return what came with the event of the run that asked for this one, as JSON; None if nothing did.

        A run that was woken may ask again: then the event is that of the first one.
        """
        for _ in range(MAX_WAKE_CHAIN):
            run_id = next((caller for _, caller in self._query("notes_of_run", run=run_id)), 0)
            data = next((row[0] for row in self._query("event_of_run", run=run_id)), None) if run_id else None
            if data or not run_id:
                return data
        return None

    def run_report(self, run_id: int) -> "RunReport | None":
        """Return what the agent of an active run has reported; None if it has not."""
        return next((read_report(row[0]) for row in self._query("run_report", run=run_id)), None)

    def run_key(self) -> str | None:
        """Return what the tokens of runs are made with; None if no run has got one yet."""
        return next((str(row[0]) for row in self._query("run_key")), None)


def read_agent_hint(row: Sequence[Any]) -> "AgentHint":
    from herdbeat.domain.agent_tools import AgentHint  # noqa: PLC0415 - few commands need it

    hint_id, every, at, expires_at, reason, run_id, request, note = row
    return AgentHint(
        id=hint_id,
        every=None if every is None else timedelta(microseconds=every),
        at=None if at is None else from_micros(at),
        expires_at=from_micros(expires_at),
        reason=reason,
        run_id=run_id,
        request=request,
        note=note,
    )


def dump_report(report: "RunReport") -> str:
    return dump_sanitized(to_json(report))


def read_report(text: str) -> "RunReport":
    from herdbeat.domain.agent_tools import RunReport  # noqa: PLC0415 - few commands need it

    return from_json(RunReport, json.loads(text), load_trigger)
