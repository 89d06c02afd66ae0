"""Reading the ledger beside the writer: a connection that cannot change anything and never holds it up."""

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from herdbeat.domain.beat import MissedReason
from herdbeat.domain.brief import RunSpec
from herdbeat.domain.change import Change
from herdbeat.domain.gap import Gap
from herdbeat.domain.policies import Budget
from herdbeat.domain.records import BeatRecord, HintRecord, NodeRecord, RunRecord, ScheduleRecord
from herdbeat.domain.schedule import display_name
from herdbeat.domain.spend import BudgetDay, BudgetOwner, SpendTotals
from herdbeat.domain.target import Target
from herdbeat.store.asking import ReadConnection
from herdbeat.store.change_rows import read_change, read_hint
from herdbeat.store.finding import Filter, find_beat_ids, find_run_ids
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.plans import read_budgets
from herdbeat.store.record_rows import read_beat, read_node, read_run, read_run_spec, read_schedule, read_target_spec
from herdbeat.store.sqlite_asking import SqliteReadConnection

__all__ = ["READER_SQL_FILES", "Filter", "Reader", "SqliteReader"]

READER_SQL_FILES = ("questions", "finding")


class Reader:
    """Answers from what is durable. Use it from one thread."""

    def __init__(self, connection: ReadConnection) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.close()

    def beats(self, wanted: Filter) -> list[BeatRecord]:
        """Newest first."""
        with self._snapshot():
            ids = find_beat_ids(self._query_ids, wanted)
            return [read_beat(row) for row in self._query("list_beats", ids=ids)]

    def runs(self, wanted: Filter) -> list[RunRecord]:
        """Newest first."""
        with self._snapshot():
            ids = find_run_ids(self._query_ids, wanted)
            return [read_run(row) for row in self._query("list_runs", ids=ids)]

    def schedules(self, wanted: Filter) -> list[ScheduleRecord]:
        """In the order they were written down."""
        rows = self._query(
            "list_schedules", target=wanted.target, name=wanted.name, after=wanted.before, limit=wanted.limit
        )
        return [read_schedule(row) for row in rows]

    def schedules_by_id(self, ids: Iterable[int]) -> list[ScheduleRecord]:
        """These, in the order they were written down."""
        return [read_schedule(row) for row in self._query("schedules_of_ids", ids=list(ids))]

    def beat(self, beat_id: int) -> BeatRecord | None:
        """One beat. Asked for as the first up to its id, which the index finds at once."""
        return next((each for each in self.beats(Filter(before=beat_id + 1, limit=1)) if each.id == beat_id), None)

    def run(self, run_id: int) -> RunRecord | None:
        return next((each for each in self.runs(Filter(before=run_id + 1, limit=1)) if each.id == run_id), None)

    def schedule(self, schedule_id: int) -> ScheduleRecord | None:
        found = self.schedules(Filter(before=schedule_id - 1, limit=1))
        return next((each for each in found if each.id == schedule_id), None)

    def open_runs(self, limit: int) -> list[int]:
        return self._query_ids("open_run_ids", limit=limit)

    def waiting_beats(self, now: datetime, limit: int) -> list[int]:
        """Beats that are due and have not started, the oldest first."""
        return self._query_ids("waiting_beat_ids", now=to_micros(now), limit=limit)

    def failing_schedules(self, limit: int) -> list[int]:
        return self._query_ids("failing_ids", limit=limit)

    def paused_or_disabled_schedules(self, limit: int) -> list[int]:
        """Those that somebody has paused or switched off. A pause that is over may be among them."""
        return self._query_ids("held_ids", limit=limit)

    def overdue_schedules(self, now: datetime, limit: int) -> list[int]:
        """Schedules whose time has come and that nobody has looked at, the oldest first."""
        return self._query_ids("overdue_ids", now=to_micros(now), limit=limit)

    def upcoming_schedules(self, now: datetime, limit: int) -> list[int]:
        return self._query_ids("soonest_ids", now=to_micros(now), limit=limit)

    def similar_names(self, word: str, limit: int = 5_000) -> set[str]:
        """Labels and targets that a mistyped name may have meant."""
        found = list(self._query("near_names", word=word, limit=limit))
        return {display_name(target, name) for target, name in found} | {target for target, _ in found}

    def count_all_schedules(self) -> int:
        return int(self._query_required("number_of_schedules")[0])

    def adjacent_beats(self, schedule_id: int, at: datetime) -> tuple[int | None, int | None]:
        """The newest beat that was due at or before a moment, and the first after it."""
        before, after = self._query_required("neighbours", schedule=schedule_id, at=to_micros(at))
        return before, after

    def beat_at(self, target: str, name: str, at: datetime) -> int | None:
        row = self._query_one("beat_at", target=target, name=name, at=to_micros(at))
        return None if row is None else row[0]

    def beat_trace(self, beat_id: int) -> str | None:
        row = self._query_one("trace_of_beat", id=beat_id)
        return None if row is None else row[0]

    def last_node(self) -> NodeRecord | None:
        return next(iter(self.nodes(1)), None)

    def nodes(self, limit: int, alive_at: datetime | None = None) -> list[NodeRecord]:
        """The newest first; all there ever were, or those that are alive at a moment."""
        return [read_node(row) for row in self._query("list_nodes", limit=limit, now=to_micros(alive_at))]

    def budgets(self, schedule_id: int) -> dict[BudgetOwner, Budget]:
        """Those that a schedule shares with others: of its target, and of the fleet."""
        return read_budgets(self._query("budgets_around", schedule=schedule_id))

    def budget_usage(self, account: BudgetDay) -> SpendTotals:
        """What is used of it, the estimates of open runs included."""
        row = self._query_one("spent_on", scope=account.holder.scope, holder=account.holder.id, day=account.day)
        return SpendTotals() if row is None else SpendTotals(*row)

    def last_usage(self, schedule_id: int, limit: int) -> list[Mapping[str, object]]:
        """What its newest so many runs said they used, as far as they did."""
        return [json.loads(usage) for (usage,) in self._query("last_usage_of", schedule=schedule_id, limit=limit)]

    def gaps(self, since: datetime) -> list[Gap]:
        return [
            Gap(from_at=from_micros(start), until=from_micros(until), reason=MissedReason(reason))
            for start, until, reason in self._query("list_gaps", since=to_micros(since))
        ]

    def run_specs(self, schedule_ids: Iterable[int]) -> dict[int, RunSpec]:
        found = self._connection.query_all("briefs_of", {"ids": list(schedule_ids)})
        return {schedule_id: read_run_spec(text) for schedule_id, text in found}

    def run_output(self, run_id: int) -> str | None:
        """The end of what a run has printed, as its log has it; None where that is only beside the node that ran it."""
        row = self._query_one("output_of", id=run_id)
        return None if row is None else str(row[0])

    def fleet_version(self) -> str:
        """Another text as soon as a target was changed. Only where several nodes share a ledger."""
        row = self._query_one("catalogue_version")
        return "" if row is None else str(row[0])

    def targets(self, target_ids: Iterable[int]) -> dict[int, Target]:
        found = self._connection.query_all("targets_of", {"ids": list(target_ids)})
        return {
            number: Target(name=name, spec=read_target_spec(kind, text), max_concurrent=room)
            for number, name, kind, text, room in found
        }

    def changes(self, wanted: Filter) -> list[Change]:
        """Who changed what, newest first: of everything, of a target with its schedules, or of one schedule."""
        subject = wanted.target if wanted.name is None else f"{wanted.target}/{wanted.name}"
        rows = self._query(
            "list_changes", subject=subject, since=to_micros(wanted.since), before=wanted.before, limit=wanted.limit
        )
        return [read_change(row) for row in rows]

    def hints(
        self, schedule_ids: Iterable[int] | None, *, ended_since: datetime | None = None, limit: int = 1_000
    ) -> list[HintRecord]:
        """The hints of these schedules (None: of all), newest first; ended ones only since a moment, if given."""
        ids = None if schedule_ids is None else list(schedule_ids)
        rows = self._query("list_hints", ids=ids, ended_since=to_micros(ended_since), limit=limit)
        return [read_hint(row) for row in rows]

    def _snapshot(self) -> AbstractContextManager[None]:
        """What is asked inside sees the ledger as it is at one moment: a row that was found is still what it was."""
        return self._connection.snapshot()

    def _query_ids(self, statement: str, /, **values: object) -> list[int]:
        return [number for (number,) in self._query(statement, **values)]

    def _query(self, statement: str, **values: object) -> Iterable[Any]:
        return self._connection.query(statement, values)

    def _query_one(self, statement: str, **values: object) -> Any:
        return self._connection.query_one(statement, values)

    def _query_required(self, statement: str, **values: object) -> Any:
        row = self._query_one(statement, **values)
        assert row is not None, f"{statement} {values}: the ledger names a row that it does not have"
        return row


class SqliteReader(Reader):
    """The reader of a ledger in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteReadConnection(path, *READER_SQL_FILES))
