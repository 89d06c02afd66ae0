"""Reading the ledger beside the writer: on a connection that cannot change anything and never blocks it."""

import json
import math
import sqlite3
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from herdbeat.domain.beat import BeatOutcome, Gap, SkipReason
from herdbeat.domain.change import Change
from herdbeat.domain.ids import display_name
from herdbeat.domain.policies import Budget
from herdbeat.domain.records import (
    BeatMark,
    BeatRecord,
    HintRecord,
    NodeRecord,
    RemotePlace,
    RunDetails,
    RunRecord,
    ScheduleOutline,
    ScheduleRecord,
    TargetRecord,
    TimelineSpan,
    planned_start,
)
from herdbeat.domain.run_status import RunStatus
from herdbeat.errors import ReadTimeout
from herdbeat.store.agent_reader import AgentReader
from herdbeat.store.agent_tools_reader import AgentToolsReader
from herdbeat.store.episode_reader import EpisodeReader
from herdbeat.store.outbox_reader import OutboxReader
from herdbeat.store.pause_reader import PauseReader
from herdbeat.store.planner_reader import PlannerReader
from herdbeat.store.record_mapping import (
    read_budgets,
    read_gaps,
    read_outlines,
    read_records,
    read_run_spec,
    read_spans,
    read_target_spec,
    read_work_claim,
)
from herdbeat.store.rule_reader import RuleReader
from herdbeat.store.sanitize import decode_lossy
from herdbeat.store.sqlite.connection import to_store_unavailable
from herdbeat.store.statements import load_statements
from herdbeat.timestamps import from_micros, to_micros

if TYPE_CHECKING:
    from herdbeat.domain.budget import BudgetDay, BudgetOwner, SpendTotals
    from herdbeat.domain.schedule import RunSpec
    from herdbeat.domain.target import Target
    from herdbeat.domain.token import TokenRecord
    from herdbeat.domain.work_claim import WorkClaimRecord, WorkClaimView

R = TypeVar("R")

MAX_RANKED_RUNS = 20_000
"""Runs of a past period by which its schedules are ranked."""

_NO_END = (1 << 63) - 1
"""A bound beyond all ids and times."""

PROGRESS_STEPS = 20_000
"""Steps of SQLite's machine between two checks of the clock: about a millisecond."""

_CLOCK_KINDS = ("cron", "delay", "interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which rows to return. `before` is the last id of the page before this one.

    `result` is how the last run of a beat ended, `status` how a run did. `include_declined` keeps the runs that were
    skipped before they began; a list of what ran leaves them out.
    """

    target: str | None = None
    name: str | None = None
    outcome: BeatOutcome | None = None
    result: RunStatus | None = None
    status: RunStatus | None = None
    run: int | None = None
    beat: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None
    limit: int = 50
    include_declined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuery:
    """Which schedules to return: those that any name, tag or group selects (all, without any), in a state if given."""

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


class StuckSchedule(NamedTuple):
    """Why the newest instants of a schedule were skipped, and the last of them."""

    reason: SkipReason
    last_due_at: datetime


class LedgerPosition(NamedTuple):
    """The newest ids of the ledger, and the transactions that were open at that moment. All 0 for a single writer."""

    beat: int
    run: int
    change: int
    oldest_open: int
    next_transaction: int


class FleetCounts(NamedTuple):
    """Schedules, those that are paused and in quarantine, waiting beats, active runs and active hints."""

    schedules: int
    paused: int
    quarantined: int
    pending: int
    running: int
    hints: int


class Reader(AgentReader, RuleReader, AgentToolsReader, OutboxReader, EpisodeReader, PauseReader, PlannerReader):
    """Answers from what is durable. Use it from one thread at a time.

    A dialect says how to fetch rows. Records are read by the names of their columns, short answers by position.
    """

    @abstractmethod
    def _fetch(self, statement: str, values: dict[str, object]) -> tuple[Sequence[str], list[Any]]:
        """Return the names of the columns, and all rows. A value may be a list: ids, names or patterns."""

    @abstractmethod
    def _fetch_at_once(self, statement: str, ids: list[int]) -> list[Any]:
        """Return all rows in one step, for lookups at every claim."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[None]:
        """Within it, all queries see the ledger at one moment, so a row that was found still exists."""

    @abstractmethod
    def _like_pattern(self, name: str) -> str:
        """Return the database's own pattern for a name in which only `*` is special."""

    @abstractmethod
    def limit_reads(self, duration: timedelta) -> None:
        """From now on no read transaction lasts longer: its query raises ReadTimeout."""

    @abstractmethod
    def close(self) -> None: ...

    # ── schedules ──

    def schedules(self, where: Filter) -> list[ScheduleRecord]:
        """Return schedules in the order they were added; `before` is the id after which the page begins."""
        values = {"name": where.name, "after": where.before, "limit": where.limit}
        if where.target is not None:
            # A statement of its own: in one with every filter, ten thousand schedules are read to find one by its name.
            return self.schedules_by_id(self._query_ids("present_named", target=where.target, **values))
        return self._query_records(ScheduleRecord, "list_schedules", **values)

    def schedules_by_id(self, ids: Iterable[int]) -> list[ScheduleRecord]:
        """Return these schedules in the order they were added."""
        return self._query_records(ScheduleRecord, "schedules_of_ids", ids=list(ids))

    def schedule(self, schedule_id: int) -> ScheduleRecord | None:
        records = self.schedules(Filter(before=schedule_id - 1, limit=1))
        return next((record for record in records if record.id == schedule_id), None)

    def find(self, query: ScheduleQuery) -> list[ScheduleRecord]:
        """Return schedules in the order they were added. A state selects too many rather than too few."""
        ids = self._query_ids(
            "matching_schedule_ids", after=query.after, limit=query.limit, **self._selector_values(query)
        )
        return self.schedules_by_id(ids)

    def outlines(self, query: ScheduleQuery) -> list[ScheduleOutline]:
        """Return all that `find` would, without its page and in a few columns."""
        with self._snapshot():
            rows = self._query("outlines", **self._selector_values(query))
            plans = dict(self._query("plan_texts", ids=list({row[3] for row in rows})))
            retries = {schedule: (at, attempt) for schedule, at, attempt in self._query("next_retries")}
        return read_outlines(rows, plans, retries)

    def _selector_values(self, query: ScheduleQuery) -> dict[str, object]:
        names, plans = None, []
        if query.has_selectors:
            # A target alone selects all its schedules.
            names = [self._like_pattern(name if "/" in name else f"{name}/*") for name in query.names]
        if query.tags or query.groups:
            plans = self._query_ids("plans_with_tags_or_groups", tags=list(query.tags), groups=list(query.groups))
        return {"names": names, "plans": plans, "state": query.state, "now": to_micros(query.now)}

    def count_all_schedules(self) -> int:
        return int(self._query_value("number_of_schedules"))

    def count_for_metrics(self, now: datetime) -> FleetCounts:
        return FleetCounts(*self._query_required("fleet_gauges", now=to_micros(now)))

    def node_metrics(self, limit: int) -> list[tuple[int, str, str]]:
        """Return id, host and counters of the live nodes that keep theirs in the ledger."""
        return [(number, host, data) for number, host, data in self._query("live_node_metrics", limit=limit)]

    def failing_schedules(self, limit: int) -> list[int]:
        return self._query_ids("failing_ids", limit=limit)

    def paused_or_disabled_schedules(self, limit: int) -> list[int]:
        """Return schedules that were paused or disabled. A pause that is over may be among them."""
        return self._query_ids("held_ids", limit=limit)

    def stuck_schedules(self, limit: int) -> dict[int, StuckSchedule]:
        """Return schedules whose instants are skipped until something is changed or a day ends."""
        rows = self._query("stuck_ids", limit=limit)
        return {
            number: StuckSchedule(SkipReason(tail.partition(":")[2]), from_micros(last_due_at))
            for number, tail, last_due_at in rows
        }

    def has_startable_schedule(self, now: datetime) -> bool:
        """Whether any schedule is neither paused nor switched off."""
        return bool(self._query_value("has_startable_schedule", now=to_micros(now)))

    def overdue_schedules(self, now: datetime, limit: int) -> list[int]:
        """Return schedules whose time has come and that no node has evaluated, the oldest first."""
        return self._query_ids("overdue_ids", now=to_micros(now), limit=limit)

    def upcoming_schedules(self, now: datetime, limit: int) -> list[int]:
        return self._query_ids("upcoming_schedule_ids", now=to_micros(now), limit=limit)

    def overdue_since(self, now: datetime) -> datetime | None:
        """Return since when the oldest schedule has been waiting for the loop; None if nothing waits."""
        return from_micros(self._query_optional(int, "overdue_since", now=to_micros(now)))

    def active_schedules(self, moment: datetime, limit: int) -> list[int]:
        """Return schedules that may have changed since then."""
        return self._query_ids("active_ids", since=to_micros(moment), limit=limit)

    def oldest_overdue(self, now: datetime) -> datetime | None:
        """Return the longest overdue moment at which a node should have evaluated a schedule."""
        return self._query_optional(from_micros, "oldest_overdue", now=to_micros(now))

    def oldest_waiting(self, schedule_ids: Iterable[int]) -> dict[int, datetime]:
        """Return since when these schedules have a waiting beat; those without one are left out."""
        rows = self._query("oldest_waiting_beat", ids=list(schedule_ids))
        return {schedule: from_micros(due_at) for schedule, due_at in rows}

    def similar_names(self, word: str, limit: int = 5_000) -> set[str]:
        """Return labels and targets that resemble a mistyped name."""
        names = self._query("similar_names", word=word, limit=limit)
        return {display_name(target, name) for target, name in names} | {target for target, _ in names}

    def tags_and_groups(self) -> set[str]:
        return {mark for (mark,) in self._query("known_tags_and_groups")}

    def run_specs(self, schedule_ids: Iterable[int]) -> "dict[int, RunSpec]":
        rows = self._fetch_at_once("briefs_of", list(schedule_ids))
        return {schedule_id: read_run_spec(text) for schedule_id, text in rows}

    # ── beats ──

    def beats(self, where: Filter) -> list[BeatRecord]:
        """Return beats, newest first."""
        with self._snapshot():
            return self._query_records(BeatRecord, "list_beats", ids=find_beat_ids(self._query_ids, where))

    def count_beats(self, where: Filter) -> int:
        """Count what `beats` would return; at most `limit`."""
        return len(find_beat_ids(self._query_ids, where))

    def count_outcomes(self) -> dict[tuple[int, str, str], int]:
        """Return how many instants there are in all, by schedule id, outcome and reason."""
        rows = self._query("count_outcomes")
        return {(schedule_id, outcome, reason): int(count) for schedule_id, outcome, reason, count in rows}

    def budget_skips(self) -> list[tuple[int, datetime, datetime]]:
        """Return the instants that a budget has stopped, as ranges: schedule id, first and last instant."""
        rows = self._query("budget_skips")
        return [(schedule_id, from_micros(first), from_micros(last)) for schedule_id, first, last in rows]

    def beat(self, beat_id: int) -> BeatRecord | None:
        return next(iter(self.beats_by_id([beat_id])), None)

    def beat_at(self, target: str, name: str, at: datetime) -> int | None:
        return self._query_optional(int, "beat_at", target=target, name=name, at=to_micros(at))

    def beat_trace(self, beat_id: int) -> str | None:
        return self._query_optional(str, "trace_of_beat", id=beat_id)

    def beat_traces(self, schedule_id: int, after: int, limit: int) -> list[tuple[int, str]]:
        """Return the stored decisions of a schedule's beats after a beat, with its id, oldest first."""
        rows = self._query("traces_of_schedule", schedule=schedule_id, after=after, limit=limit)
        return [(beat_id, trace) for beat_id, trace in rows]

    def beat_data(self, beat_id: int) -> str | None:
        """Return what came with a beat, as JSON; None if nothing did."""
        return self._query_optional(str, "payload_of_beat", id=beat_id)

    def adjacent_beats(self, schedule_id: int, at: datetime) -> tuple[int | None, int | None]:
        """Return the newest beat that was due at or before a moment, and the first after it."""
        before, after = self._query_required("neighbours", schedule=schedule_id, at=to_micros(at))
        return before, after

    def waiting_beats(self, now: datetime, limit: int) -> list[int]:
        """Return beats that are due and have not started, the oldest first."""
        return self._query_ids("waiting_beat_ids", now=to_micros(now), limit=limit)

    def recent_beat_marks(self, schedule_ids: Iterable[int], length: int) -> dict[int, list[BeatMark]]:
        """Return the outcomes of the last beats of each schedule, the oldest first."""
        ids = self._query_ids("newest_beats_of", ids=list(schedule_ids), kinds=list(_CLOCK_KINDS), limit=length)
        marks: dict[int, list[BeatMark]] = {}
        for beat, schedule, outcome, count, status, took in self._query("beat_marks", ids=ids):
            spent = None if took is None else timedelta(microseconds=took)
            mark = BeatMark(beat, BeatOutcome(outcome), RunStatus(status) if status else None, count, spent)
            marks.setdefault(schedule, []).append(mark)
        return {schedule: newest[-length:] for schedule, newest in marks.items()}

    def recent_lateness(self, limit: int) -> list[timedelta]:
        """Return how long after their planned start the last clock beats were created: jitter makes none late."""
        rows = [
            (from_micros(created), from_micros(due), trace)
            for created, due, trace in self._query("recent_lateness", limit=limit)
        ]
        return [max(timedelta(0), created - planned_start(trace, due)) for created, due, trace in rows]

    def spans(self, schedule_ids: Iterable[int], since: datetime, until: datetime, limit: int) -> list[TimelineSpan]:
        """Return what happened in a period, the newest first. A beat of several runs comes once for each."""
        values = {"since": to_micros(since), "until": to_micros(until), "limit": limit}
        return self._query_records(TimelineSpan, "spans", ids=list(schedule_ids), **values)

    def lateness_by_node(self, limit: int) -> dict[int, list[timedelta]]:
        """Return how late each node took up its last clock beats, as in `recent_lateness`."""
        found: dict[int, list[timedelta]] = {}
        for node, created, due, trace in self._query("lateness_of_nodes", limit=limit):
            late = from_micros(created) - planned_start(trace, from_micros(due))
            found.setdefault(node, []).append(max(timedelta(0), late))
        return found

    def recent_spans(
        self, schedule_ids: Iterable[int], since: datetime, until: datetime | None = None, *, each: int, limit: int
    ) -> tuple[list[TimelineSpan], set[int]]:
        """Return what reaches into a period, the newest first, and whose older runs are left out.

        Of each schedule come its newest `each` runs, and of all together the newest `limit` that failed or did not run.
        """
        ids, period, start = list(schedule_ids), self._run_ids_between(since, until), to_micros(since)
        end = _NO_END if until is None else to_micros(until)
        runs = self._query("spans_of_runs", ids=ids, since=start, each=each, before_run=period["before_run"])
        counts = Counter(row[0] for row in runs)
        rows = {*runs, *self._query("spans_of_failures", ids=ids, limit=limit, **period)}
        rows.update(self._query("spans_of_unrun_beats", ids=ids, since=start, until=end, limit=limit))
        cut = {schedule for schedule, number in counts.items() if number >= each}
        return sorted(read_spans(rows), key=lambda span: span.due_at, reverse=True), cut

    def first_runs(self, schedule_ids: Iterable[int]) -> dict[int, datetime]:
        """Return when the oldest run that the ledger still has began, by schedule."""
        rows = self._query("first_runs_of", ids=list(schedule_ids))
        return {schedule: from_micros(began) for schedule, began in rows if began is not None}

    def failures_since(self, since: datetime, limit: int, until: datetime | None = None) -> dict[int, int]:
        """Return how many runs failed and how many instants were missed, by schedule; at most of the newest `limit`."""
        period, counts = self._run_ids_between(since, until), Counter[int]()
        for status in (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.INTERRUPTED):
            counts.update(dict(self._query("failed_counts", status=status, limit=limit, **period)))
        end = _NO_END if until is None else to_micros(until)
        missed = self._query("missed_counts", since=to_micros(since), until=end, limit=limit)
        counts.update({schedule: int(number) for schedule, number in missed})
        return dict(counts)

    def latest_schedules(self, since: datetime, limit: int) -> list[int]:
        """Return schedules that started something since a moment, or are busy, the latest first."""
        return self._query_ids("latest_ids", since=to_micros(since), limit=limit)

    def schedules_between(self, since: datetime, until: datetime, limit: int) -> list[int]:
        """Return schedules that started something in a period, the latest first, by its newest runs."""
        period = self._run_ids_between(since, until)
        return self._query_ids("schedules_of_period", looked_at=MAX_RANKED_RUNS, limit=limit, **period)

    def _run_ids_between(self, since: datetime, until: datetime | None) -> dict[str, int]:
        """Return the first run of a period, and the first one after it."""
        before = _NO_END if until is None else self.first_run_since(until)
        return {"first_run": self.first_run_since(since), "before_run": before}

    # ── runs ──

    def runs(self, where: Filter) -> list[RunRecord]:
        """Return runs, newest first."""
        with self._snapshot():
            return self._query_records(RunRecord, "list_runs", ids=find_run_ids(self._query_ids, where))

    def count_runs(self, where: Filter) -> int:
        """Count what `runs` would return; at most `limit`."""
        return len(find_run_ids(self._query_ids, where))

    def run(self, run_id: int) -> RunRecord | None:
        return next(iter(self.runs_by_id([run_id])), None)

    def details(self, run_id: int) -> RunDetails:
        (details,) = self._query_records(RunDetails, "run_details", id=run_id)
        return details

    def remote_places(self, limit: int) -> dict[int, RemotePlace]:
        """Return where open runs on engines are, by their id."""
        rows = self._query("remote_places", limit=limit)
        return {run: RemotePlace(kind=kind, place=place, job=job) for run, kind, place, job in rows}

    def work_claims(
        self, target: str | None = None, *, only_open: bool = False, limit: int = 1_000
    ) -> "list[WorkClaimView]":
        """Return claims of work items, newest first. With `only_open`, those that hold an item or are blocked."""
        rows = self._query("list_work_claims", target=target, open=int(only_open), limit=limit)
        return [_read_work_claim_view(row) for row in rows]

    def earlier_attempts(self, claim: "WorkClaimRecord") -> "list[WorkClaimView]":
        """Return the attempts at the item of a claim since it was offered, newest first, without that one."""
        values = {"source": claim.source, "item": claim.item, "before": claim.id, "limit": claim.attempt - 1}
        return [_read_work_claim_view(row) for row in self._query("earlier_attempts", **values)]

    def work_claim_of_run(self, run_id: int) -> "WorkClaimView | None":
        """Return the item that a run worked on; None if it had none."""
        return next((_read_work_claim_view(row) for row in self._query("work_claim_of_run", run=run_id)), None)

    def work_done_between(self, since: datetime, until: datetime, limit: int) -> "list[WorkClaimView]":
        """Return the items whose runs succeeded in a time, oldest first."""
        values = {"since": to_micros(since), "until": to_micros(until), "limit": limit}
        return [_read_work_claim_view(row) for row in self._query("work_done_between", **values)]

    def open_runs(self, limit: int) -> list[int]:
        return self._query_ids("open_run_ids", limit=limit)

    def filter_running(self, run_ids: Iterable[int]) -> set[int]:
        return set(self._query_ids("running_ids_among", ids=list(run_ids)))

    def newest_run(self) -> int:
        return int(self._query_value("newest_run"))

    def runs_after(self, run_id: int, limit: int) -> list[int]:
        return self._query_ids("runs_after", after=run_id, limit=limit)

    def first_run_since(self, moment: datetime) -> int:
        """Return the id of the first run claimed at or after a moment; the id after the last run if there is none.

        Ids rise with time and no index has the time of a claim, so this is a binary search.
        """
        low, high, since = 1, self.newest_run() + 1, to_micros(moment)
        while low < high:
            middle = (low + high) // 2
            number, claimed_at = self._query_required("first_run_since", id=middle)
            if claimed_at < since:
                low = number + 1
            else:
                high = middle
        return low

    def run_output(self, run_id: int) -> str | None:
        """Return the tail of what a run printed; None where only the node that ran it has it."""
        return self._query_optional(str, "output_of", id=run_id)

    def last_usage(self, schedule_id: int, limit: int) -> list[Mapping[str, object]]:
        """Return the usage that its newest `limit` runs reported, as far as they did."""
        return [json.loads(usage) for (usage,) in self._query("last_usage_of", schedule=schedule_id, limit=limit)]

    def fleet_name(self) -> str | None:
        """Return the name of the fleet that owns this ledger; None if none was set yet."""
        return self._query_optional(str, "fleet_name")

    def variables(self) -> list[str]:
        """Return the names of the variables that the specs of this fleet refer to."""
        names: list[str] = json.loads(self._query_optional(str, "variables") or "[]")
        return names

    def old_secrets(self) -> list[str]:
        """Return the values that a version before references has stored; none after the first apply since."""
        texts: list[str] = json.loads(self._query_optional(str, "secrets") or "[]")
        return texts

    # ── targets, nodes, hints, budgets, changes ──

    def targets(self, target_ids: Iterable[int]) -> "dict[int, Target]":
        from herdbeat.domain.target import Target  # noqa: PLC0415 - few commands need it

        rows = self._fetch_at_once("targets_of", list(target_ids))
        return {
            number: Target(
                name=name,
                spec=read_target_spec(kind, text),
                max_concurrent=max_concurrent,
                hooks=json.loads(hooks) if hooks else {},
            )
            for number, name, kind, text, max_concurrent, hooks in rows
        }

    def target_page(self, after: str, limit: int, only: str = "") -> list[TargetRecord]:
        """Return targets by name, those after a name; or the one that is called `only`."""
        return self._query_records(TargetRecord, "target_page", first=after, limit=limit, only=only)

    def has_isolation(self) -> bool:
        """Whether an agent is isolated, in all of its schedules or in one."""
        return bool(self._query_value("has_isolation", pattern='%"isolation":{%'))

    def find_target(self, name: str) -> tuple[int, str, int] | None:
        """Return its id, its origin, and how many of its runs are open."""
        rows = self._query("target_id", name=name)
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def last_node(self) -> NodeRecord | None:
        return next(iter(self.nodes(1)), None)

    def nodes(self, limit: int, alive_at: datetime | None = None) -> list[NodeRecord]:
        """Return the newest nodes first; all there ever were, or those that are alive at a moment."""
        return self._query_records(NodeRecord, "list_nodes", limit=limit, now=to_micros(alive_at))

    def gaps(self, since: datetime) -> list[Gap]:
        return read_gaps(self._query("list_gaps", since=to_micros(since)))

    def hints(
        self, schedule_ids: Iterable[int] | None, *, ended_since: datetime | None = None, limit: int = 1_000
    ) -> list[HintRecord]:
        """Return the hints of these schedules (None: of all), newest first; with `ended_since`, no older ended ones."""
        ids = None if schedule_ids is None else list(schedule_ids)
        return self._query_records(HintRecord, "list_hints", ids=ids, ended_since=to_micros(ended_since), limit=limit)

    def has_hints(self) -> bool:
        """Whether any schedule has a hint that has not ended."""
        return bool(self._query_value("any_hint"))

    def budgets(self, schedule_id: int) -> "dict[BudgetOwner, Budget]":
        """Return the budgets that a schedule shares with others: of its target, and of the fleet."""
        return read_budgets(self._query("budgets_of_schedule", schedule=schedule_id))

    def budget_usage(self, account: "BudgetDay") -> "SpendTotals":
        """Return what is used of it, the estimates of open runs included."""

        from herdbeat.domain.budget import SpendTotals  # noqa: PLC0415 - few commands need it

        rows = self._query("spent_on", scope=account.holder.scope, holder=account.holder.id, day=account.day)
        return SpendTotals(*rows[0]) if rows else SpendTotals()

    def changes(self, where: Filter) -> list[Change]:
        """Return who changed what, newest first: of everything, of a target with its schedules, or of one schedule."""
        subject = where.target if where.name is None else f"{where.target}/{where.name}"
        period = {"since": to_micros(where.since), "until": to_micros(where.until)}
        values = {**period, "before": where.before, "limit": where.limit}
        return self._query_records(Change, "list_changes", subject=subject, **values)

    def tokens(self, limit: int) -> "list[TokenRecord]":
        """Return the newest first, those that were revoked or have expired too."""

        from herdbeat.domain.token import TokenRecord  # noqa: PLC0415 - few commands need it

        return self._query_records(TokenRecord, "list_tokens", limit=limit)

    def find_token(self, digest: str) -> "TokenRecord | None":
        from herdbeat.domain.token import TokenRecord  # noqa: PLC0415 - few commands need it

        return next(iter(self._query_records(TokenRecord, "token_of_digest", digest=digest)), None)

    # ── live events ──

    def ledger_position(self) -> LedgerPosition:
        """Return the newest ids, then the transactions that are open: those with a smaller id may still commit."""
        beat, run, change = self._query_required("ledger_position")
        oldest, following = self._query_required("ledger_horizon")
        return LedgerPosition(beat=beat, run=run, change=change, oldest_open=oldest, next_transaction=following)

    def beats_after(self, beat_id: int, limit: int) -> list[int]:
        return self._query_ids("beats_after", after=beat_id, limit=limit)

    def changes_after(self, change_id: int, limit: int) -> list[Change]:
        return self._query_records(Change, "changes_after", after=change_id, limit=limit)

    def open_beats(self, limit: int) -> list[int]:
        """Return beats that wait or run, in no order."""
        return self._query_ids("open_beat_ids", limit=limit)

    def open_counts(self) -> dict[str, int]:
        """Return how many beats of each target wait or run."""
        return dict(self._query("open_counts"))

    def growing_beats(self, limit: int) -> dict[int, int]:
        """Return the rows of skipped or missed instants that may still grow, with their counts."""
        return dict(self._query("growing_beats", limit=limit))

    def beats_by_id(self, ids: Iterable[int]) -> list[BeatRecord]:
        return self._query_records(BeatRecord, "list_beats", ids=list(ids))

    def runs_by_id(self, ids: Iterable[int]) -> list[RunRecord]:
        return self._query_records(RunRecord, "list_runs", ids=list(ids))

    def version(self) -> int:
        """Return a number that differs after every write: cheap enough to poll ten times a second."""
        return int(self._query_value("data_version"))

    def fleet_version(self) -> str:
        """Return a text that differs after every change of a target. Only for a ledger that several nodes share."""
        return self._query_optional(str, "catalogue_version") or ""

    # ── queries ──

    def _query(self, statement: str, **values: object) -> list[Any]:
        return self._fetch(statement, values)[1]

    def _query_records(self, record_type: type[R], statement: str, **values: object) -> list[R]:
        return read_records(record_type, *self._fetch(statement, values))

    def _query_ids(self, statement: str, /, **values: object) -> list[int]:
        return [number for (number,) in self._query(statement, **values)]

    def _query_required(self, statement: str, **values: object) -> Any:
        rows = self._query(statement, **values)
        assert rows, f"{statement} {values}: the ledger refers to a missing row"
        return rows[0]

    def _query_value(self, statement: str, **values: object) -> Any:
        (value,) = self._query_required(statement, **values)
        return value

    def _query_optional(self, value_type: Callable[[Any], R], statement: str, **values: object) -> R | None:
        """Return the value of the first row; None if there is no row, or it is NULL."""
        rows = self._query(statement, **values)
        return value_type(rows[0][0]) if rows and rows[0][0] is not None else None


_NOT_UTF8 = "Could not decode to UTF-8"
"""How the message of `sqlite3` begins; it has no code of its own."""


class SqliteReader(Reader):
    """The reader of a ledger in a file. Raises StoreUnavailable if the file cannot be opened, or is damaged."""

    def __init__(self, path: Path) -> None:
        try:
            # The server hands a reader from one thread to the next; it is never used by two at once.
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise to_store_unavailable(path, error) from error
        self._path = path
        self._sql = load_statements("sqlite")
        self._max_read_s: float | None = None
        self._deadline = math.inf
        self._is_in_snapshot = False

    def limit_reads(self, duration: timedelta) -> None:
        self._max_read_s = duration.total_seconds()
        self._connection.set_progress_handler(lambda: time.monotonic() > self._deadline, PROGRESS_STEPS)

    def _fetch(self, statement: str, values: dict[str, object]) -> tuple[Sequence[str], list[Any]]:
        bound = {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}
        self._begin_read()
        try:
            return self._execute(statement, bound)
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise  # our own mistake: the file is fine
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if self._max_read_s is not None and str(error) == "interrupted":
                raise ReadTimeout(self._max_read_s) from error
            # A damaged file is noticed by the first query, not by opening it.
            raise to_store_unavailable(self._path, error) from error
        finally:
            if not self._is_in_snapshot:
                self._deadline = math.inf

    def _execute(self, statement: str, bound: dict[str, object]) -> tuple[Sequence[str], list[Any]]:
        """A text that is no UTF-8 is rare. From the first on, Python decodes every text, which takes far longer."""
        try:
            cursor = self._connection.execute(self._sql[statement], bound)
            return [column for column, *_ in cursor.description], cursor.fetchall()
        except sqlite3.OperationalError as error:
            if self._connection.text_factory is decode_lossy or not str(error).startswith(_NOT_UTF8):
                raise
        self._connection.text_factory = decode_lossy
        return self._execute(statement, bound)

    def _fetch_at_once(self, statement: str, ids: list[int]) -> list[Any]:
        """As one JSON text: the driver releases Python's lock at every row, and would wait for it as often."""
        rows: list[Any] = json.loads(self._query_value(statement, ids=ids))
        return rows

    def _begin_read(self) -> None:
        """A snapshot is one read transaction, however many queries it has."""
        if self._max_read_s is not None and not self._is_in_snapshot:
            self._deadline = time.monotonic() + self._max_read_s

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        self._begin_read()
        self._is_in_snapshot = True
        try:
            yield
        finally:
            self._is_in_snapshot = False
            self._deadline = math.inf  # the rollback itself is never stopped
            self._connection.execute("ROLLBACK")

    def _like_pattern(self, name: str) -> str:
        return "".join(f"[{letter}]" if letter in "[?" else letter for letter in name)

    def close(self) -> None:
        self._connection.close()


# ── which index leads to the wanted beats and runs ──
#
# One statement with every filter in it would take the slowest way: SQLite plans it before it knows which filters are
# given.

MAX_GATHERED_SCHEDULES = 200
"""Schedules whose whole history is gathered and sorted. A target with more has some of the newest rows anyway."""

MAX_GATHERED_BEATS = 10_000
"""Beats since a moment that are gathered and sorted; if there are more, the newest are soon found without."""

_RARE_OUTCOMES = frozenset({BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED})
_COMMON_STATUSES = frozenset({None, RunStatus.RUNNING, RunStatus.SUCCEEDED})


class IdQuery(Protocol):
    """Runs a named statement and returns the ids that it finds."""

    def __call__(self, statement: str, /, **values: object) -> list[int]: ...


def find_beat_ids(query_ids: IdQuery, where: Filter) -> list[int]:
    """Return ids, newest first."""
    return _find_ids(query_ids, where, "beats_of_schedules", partial(_choose_beat_query, query_ids, where))


def find_run_ids(query_ids: IdQuery, where: Filter) -> list[int]:
    """Return ids, newest first."""
    return _find_ids(query_ids, where, "runs_of_schedules", partial(_choose_run_query, where))


def _find_ids(query_ids: IdQuery, where: Filter, schedule_query: str, choose_query: Callable[[], str]) -> list[int]:
    """Go through the schedules that the filter names, or by another index where they are many or none is named."""
    values = {
        "outcome": where.outcome,
        "result": where.result,
        "status": where.status,
        "run": where.run,
        "beat": where.beat,
        "since": to_micros(where.since),
        "until": to_micros(where.until),
        "before": where.before,
        "target": where.target,
        "declined": int(where.include_declined),
        "limit": where.limit,
    }
    if where.target is not None:
        limit = MAX_GATHERED_SCHEDULES + 1
        schedules = query_ids("schedules_named", target=where.target, name=where.name, limit=limit)
        if not schedules:
            return []
        if len(schedules) < limit:
            return query_ids(schedule_query, schedules=schedules, **values)
    return query_ids(choose_query(), **values)


def _choose_beat_query(query_ids: IdQuery, where: Filter) -> str:
    if where.outcome is BeatOutcome.PENDING:
        return "pending_beat_ids"
    if where.outcome in _RARE_OUTCOMES:
        return "unrun_beat_ids"
    if where.result not in _COMMON_STATUSES:
        return "beat_ids_of_ended_runs"
    if where.since is not None:
        recent = query_ids("beats_since", since=to_micros(where.since), limit=MAX_GATHERED_BEATS)
        if len(recent) < MAX_GATHERED_BEATS:
            return "recent_beats"
    return "newest_beats"


def _choose_run_query(where: Filter) -> str:
    if where.beat is not None:
        return "runs_of_beat"
    if where.status is RunStatus.RUNNING:
        return "running_run_ids"
    return "newest_runs" if where.status in _COMMON_STATUSES else "ended_run_ids"


def _read_work_claim_view(row: Sequence[Any]) -> "WorkClaimView":
    from herdbeat.domain.work_claim import WorkClaimView  # noqa: PLC0415 - few commands need it

    target, schedule, run_status = row[21:24]
    return WorkClaimView(claim=read_work_claim(row), target=target, schedule=schedule, run_status=run_status)
