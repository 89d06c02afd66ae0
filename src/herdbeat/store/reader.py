"""Reading the ledger beside the writer: a connection that cannot change anything and never holds it up."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from herdbeat.domain.beat import BeatOutcome, Gap
from herdbeat.domain.budget import BudgetDay, BudgetOwner, SpendTotals
from herdbeat.domain.change import Change
from herdbeat.domain.policies import Budget
from herdbeat.domain.records import (
    BeatMark,
    BeatRecord,
    HintRecord,
    NodeRecord,
    RunDetails,
    RunRecord,
    ScheduleRecord,
    TimelineSpan,
)
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import RunSpec, display_name
from herdbeat.domain.target import Target
from herdbeat.store.microseconds import from_micros, to_micros
from herdbeat.store.record_mapping import (
    read_beat,
    read_budgets,
    read_change,
    read_gaps,
    read_hint,
    read_node,
    read_run,
    read_run_spec,
    read_schedule,
    read_target_spec,
)
from herdbeat.store.sqlite.connection import SqliteReadConnection
from herdbeat.store.statements import ReadConnection

# The shortest way to the beats and runs that are wanted: which index leads there, and when to read from the newest.
#
# One statement with every filter in it would be asked the slowest way: SQLite cannot know which filters are given.


MAX_GATHERED_SCHEDULES = 200
"""Schedules whose whole history is gathered and sorted. A target with more has some of the newest rows anyway."""

MAX_GATHERED_BEATS = 10_000
"""Beats since a moment that are gathered and sorted; if there are more, the newest are soon found without."""

_RARE_OUTCOMES = frozenset({BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED})
_COMMON_STATUSES = frozenset({RunStatus.RUNNING, RunStatus.SUCCEEDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which rows are wanted. `before` is the id where the page before this one ended.

    `with_declined` are also runs that were skipped before they began: nobody who asks what was run means those.
    """

    target: str | None = None
    name: str | None = None
    outcome: BeatOutcome | None = None
    status: RunStatus | None = None
    run: int | None = None
    beat: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None
    limit: int = 50
    include_declined: bool = True


class IdQuery(Protocol):
    """Puts a named question and hands out the ids that answer it."""

    def __call__(self, statement: str, /, **values: object) -> list[int]: ...


def find_beat_ids(query_ids: IdQuery, wanted: Filter) -> list[int]:
    """Newest first."""
    values: dict[str, object] = {
        "outcome": wanted.outcome,
        "since": to_micros(wanted.since),
        "until": to_micros(wanted.until),
        "before": wanted.before,
        "limit": wanted.limit,
    }
    return _find_by_schedule(
        query_ids, wanted, values, "beats_of_schedules", lambda: _choose_beat_query(query_ids, wanted)
    )


def find_run_ids(query_ids: IdQuery, wanted: Filter) -> list[int]:
    """Newest first."""
    values: dict[str, object] = {
        "status": wanted.status,
        "run": wanted.run,
        "beat": wanted.beat,
        "since": to_micros(wanted.since),
        "before": wanted.before,
        "limit": wanted.limit,
        "declined": int(wanted.include_declined),
    }
    return _find_by_schedule(query_ids, wanted, values, "runs_of_schedules", lambda: _choose_run_query(wanted))


def _find_by_schedule(
    query_ids: IdQuery, wanted: Filter, values: dict[str, object], schedule_query: str, choose_query: Callable[[], str]
) -> list[int]:
    """Through the few schedules that are meant, or another way where they are many or not named."""
    if wanted.target is None:
        return query_ids(choose_query(), target=None, **values)
    schedules = query_ids("schedules_named", target=wanted.target, name=wanted.name, limit=MAX_GATHERED_SCHEDULES + 1)
    if not schedules:
        return []
    if len(schedules) <= MAX_GATHERED_SCHEDULES:
        return query_ids(schedule_query, schedules=schedules, **values)
    return query_ids(choose_query(), target=wanted.target, **values)


def _choose_beat_query(query_ids: IdQuery, wanted: Filter) -> str:
    if wanted.outcome is BeatOutcome.PENDING:
        return "beats_that_wait"
    if wanted.outcome in _RARE_OUTCOMES:
        return "unusual_beats"
    if (
        wanted.since is not None
        and len(query_ids("beats_since", since=to_micros(wanted.since), limit=MAX_GATHERED_BEATS)) < MAX_GATHERED_BEATS
    ):
        return "recent_beats"
    return "newest_beats"


def _choose_run_query(wanted: Filter) -> str:
    if wanted.beat is not None:
        return "runs_of_beat"
    if wanted.status is RunStatus.RUNNING:
        return "runs_that_go"
    return "newest_runs" if wanted.status is None or wanted.status in _COMMON_STATUSES else "unusual_runs"


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
        return read_gaps(self._query("list_gaps", since=to_micros(since)))

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


# What only people who look at a fleet ask of the ledger: quick, however many schedules and beats there are.


QUERY_READER_SQL_FILES = (*READER_SQL_FILES, "looking")

_CLOCK_KINDS = ("cron", "delay", "interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuery:
    """Which schedules: those that any name, tag or group means (all, if there are none), in a state if one is given."""

    now: datetime
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    state: str | None = None
    after: int | None = None
    limit: int = 50

    @property
    def has_selectors(self) -> bool:
        return bool(self.names or self.tags or self.groups)


class QueryReader(Reader):
    """A reader with more questions."""

    def find(self, query: ScheduleQuery) -> list[ScheduleRecord]:
        """In the order they were written down. Of a state it gives too many rather than too few."""
        ids = self._query_ids("looked_for_ids", after=query.after, limit=query.limit, **self._values(query))
        return self.schedules_by_id(ids)

    def count_matching(self, query: ScheduleQuery) -> int:
        """How many there are, of any state that `find` would give."""
        if not query.has_selectors and query.state is None:
            return self.count_all_schedules()
        return int(self._query_required("number_looked_for", **self._values(query))[0])

    def tags_and_groups(self) -> set[str]:
        """Every tag and every group."""
        return {mark for (mark,) in self._query("known_marks")}

    def recent_beat_marks(self, schedule_ids: Iterable[int], length: int) -> dict[int, list[BeatMark]]:
        """What became of the last beats of each schedule, the oldest first."""
        ids = {beat for number in schedule_ids for beat in self._newest_beats(number, length)}
        strips: dict[int, list[BeatMark]] = {}
        for beat, schedule, outcome, count, status in self._query("marks_of", ids=list(ids)):
            mark = BeatMark(
                beat=beat, outcome=BeatOutcome(outcome), status=RunStatus(status) if status else None, number=count
            )
            strips.setdefault(schedule, []).append(mark)
        return {schedule: marks[-length:] for schedule, marks in strips.items()}

    def oldest_waiting(self, schedule_ids: Iterable[int]) -> dict[int, datetime]:
        """Since when these schedules have a beat that waits; those without one are left out."""
        rows = self._query("oldest_waiting", ids=list(schedule_ids))
        return {schedule: from_micros(due_at) for schedule, due_at in rows}

    def has_hints(self) -> bool:
        """Whether any schedule has a hint that was not ended."""
        return bool(self._query_required("any_hint")[0])

    def details(self, run_id: int) -> RunDetails:
        response, usage, session, note, host, pid, version = self._query_required("run_details", id=run_id)
        return RunDetails(
            response=_load_json(response),
            usage=_load_json(usage) or {},
            session=session or "",
            note=note or "",
            host=host or "",
            pid=pid,
            version=version or "",
        )

    def find_target(self, name: str) -> tuple[int, str, int] | None:
        """Its id, where it is written, and how many of its runs are going."""
        row = self._query_one("target_id", name=name)
        return None if row is None else (row[0], row[1], row[2])

    def recent_lateness(self, limit: int) -> list[timedelta]:
        """How long after their time the last beats of the clock were found."""
        rows = self._query("recent_lateness", limit=limit)
        return [timedelta(microseconds=max(0, micros)) for (micros,) in rows]

    def oldest_overdue(self, now: datetime) -> datetime | None:
        """The longest overdue moment at which somebody should have looked at a schedule."""
        (micros,) = self._query_required("oldest_overdue", now=to_micros(now))
        return None if micros is None else from_micros(micros)

    def active_schedules(self, moment: datetime, limit: int) -> list[int]:
        """Schedules to which something may have happened since then."""
        return self._query_ids("active_ids", since=to_micros(moment), limit=limit)

    def spans(self, schedule_ids: Iterable[int], since: datetime, until: datetime, limit: int) -> list[TimelineSpan]:
        """What took place in a time, the newest first. A beat of several runs comes once for each."""
        ids = list(schedule_ids)
        rows = self._query("spans", ids=ids, since=to_micros(since), until=to_micros(until), limit=limit)
        return [_read_span(row) for row in rows]

    def newest_run(self) -> int:
        return int(self._query_required("newest_run")[0])

    def runs_after(self, run_id: int, limit: int) -> list[int]:
        return self._query_ids("runs_after", after=run_id, limit=limit)

    def filter_running(self, run_ids: Iterable[int]) -> set[int]:
        return set(self._query_ids("still_running", ids=list(run_ids)))

    def version(self) -> int:
        """Another number as soon as anybody has written anything: cheap to ask, ten times a second."""
        return int(self._query_required("data_version")[0])

    def first_run_since(self, moment: datetime) -> int:
        """The id of the first run claimed at or after a moment; past the last one if there is none.

        Ids rise with time, and no index has the time of a claim: so it is looked up as in a dictionary.
        """
        low, high, wanted = 1, self.newest_run() + 1, to_micros(moment)
        while low < high:
            middle = (low + high) // 2
            number, claimed_at = self._query_required("first_run_since", id=middle)
            if claimed_at < wanted:
                low = number + 1
            else:
                high = middle
        return low

    def _newest_beats(self, schedule: int, length: int) -> Iterable[int]:
        """Those of the clock by their ids, and those of events, which have runs, by their runs."""
        for kind in _CLOCK_KINDS:
            yield from self._query_ids(
                "clock_beats", schedule=schedule, first=f"{kind}:", last=f"{kind};", limit=length
            )
        yield from self._query_ids("beats_of_newest_runs", schedule=schedule, limit=length)

    def _values(self, query: ScheduleQuery) -> dict[str, object]:
        names = (
            [self._connection.like_pattern(_expand_target_name(each)) for each in query.names]
            if query.has_selectors
            else None
        )
        plans: list[int] = []
        if query.tags or query.groups:
            plans = self._query_ids("plans_marked", tags=list(query.tags), groups=list(query.groups))
        return {"names": names, "plans": plans, "state": query.state, "now": to_micros(query.now)}


class SqliteQueryReader(QueryReader):
    """The same for a ledger in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteReadConnection(path, *QUERY_READER_SQL_FILES))


def _expand_target_name(name: str) -> str:
    """A target alone means all its schedules."""
    return name if "/" in name else f"{name}/*"


def _read_span(row: Any) -> TimelineSpan:
    schedule, outcome, due_at, last_due_at, count, status, started_at, finished_at = row
    return TimelineSpan(
        schedule=schedule,
        outcome=BeatOutcome(outcome),
        due_at=from_micros(due_at),
        last_due_at=from_micros(last_due_at),
        number=count,
        status=RunStatus(status) if status else None,
        started_at=from_micros(started_at),
        finished_at=from_micros(finished_at),
    )


def _load_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)
