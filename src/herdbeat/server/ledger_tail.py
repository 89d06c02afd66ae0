"""The tail of the ledger: what happened since the last poll, as typed events.

New rows are read by their ids, ended ones as the difference of the small sets of open rows. So the scheduler writes
nothing for its listeners, and nothing is read while there are none.

On PostgreSQL ids are given before their transactions commit. A mark moves to an id only when every transaction that was
open when the id was noted has ended; rows above the mark are read again, and dropped by their ids.

Conditions (late, failing, budget exceeded) have no rows. They are compared every few seconds, because a schedule
becomes late without a write. They are the conditions that notifications are made of; nothing is decided here.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.bootstrap.handle import Reader
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.notification import ActiveCondition, ConditionKind
from herdbeat.domain.records import BeatRecord, HintRecord, NodeRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_duration
from herdbeat.service.notifications.conditions import ConditionSource
from herdbeat.service.queries.nodes import NodeState, find_nodes
from herdbeat.service.serialize import JsonObject
from herdbeat.timestamps import format_optional_timestamp, format_timestamp

MAX_ROWS = 2_000
"""New or open rows of a kind that are compared one by one. Above that only their number is, and targets are named."""

MAX_EVENTS_PER_TICK = 200
MAX_STUCK = timedelta(seconds=60)
GROWING_INTERVAL = timedelta(seconds=2)
COUNT_INTERVAL = timedelta(seconds=1)
QUIET_INTERVAL = timedelta(seconds=2)
"""How often a ledger without writes is polled: hints end, and nodes die, without a write."""

MAX_SCHEDULES_FOR_GROWTH = 10_000
_OPEN_OUTCOMES = (BeatOutcome.PENDING, BeatOutcome.RUNNING)
_FILE_CHANGES = (ChangeKind.ADD, ChangeKind.EDIT, ChangeKind.REMOVE)
_FILE_ACTORS = ("files", "up")
_RULE_PREFIX = "rule:"
_TOKEN_SUBJECT = "token:"  # noqa: S105 -- changes of tokens are about no schedule


class LiveEvent(NamedTuple):
    """One event: its public name, the schedule or target that it is about ("" for the fleet), and its data."""

    name: str
    subject: str
    data: JsonObject


class _Note(NamedTuple):
    last_id: int
    next_transaction: int
    at: datetime


@dataclass(slots=True)
class IdMark:
    """Up to which id all rows of a table are known."""

    mark: int
    _seen: set[int] = field(default_factory=set)
    _notes: deque[_Note] = field(default_factory=deque)

    def take_new(self, ids: Iterable[int]) -> list[int]:
        """Return the ids that were not there before, and remember them."""
        new = [each for each in ids if each > self.mark and each not in self._seen]
        self._seen.update(new)
        return new

    def advance(self, last_id: int, oldest_open: int, next_transaction: int, now: datetime) -> None:
        """Note the newest id, and move to those notes whose transactions have all ended."""
        if last_id > self.mark:
            self._notes.append(_Note(last_id, next_transaction, now))
        while self._notes and oldest_open >= self._notes[0].next_transaction:
            self.mark = max(self.mark, self._notes.popleft().last_id)
        self._seen = {each for each in self._seen if each > self.mark}

    def is_stuck(self, now: datetime) -> bool:
        return bool(self._notes) and now - self._notes[0].at > MAX_STUCK


class TailBroken(Exception):
    """The tail cannot say what happened in between: listeners have to read again."""


class LedgerTail:
    """Polls one ledger through one reader."""

    def __init__(self, reader: Reader, now: datetime, holder_pid: int | None = None) -> None:
        self._reader = reader
        self._holder_pid = holder_pid
        self._version = -1
        self._looked_at = now
        position = reader.ledger_position()
        self._beats, self._runs, self._changes = IdMark(position.beat), IdMark(position.run), IdMark(position.change)
        self._open_runs = _to_comparable(reader.open_runs(MAX_ROWS + 1))
        self._open_beats = _to_comparable(reader.open_beats(MAX_ROWS + 1))
        self._counts = self._count_open_rows()
        self._counted_at = now
        self._hints = self._load_active_hints(now)
        self._nodes = self._load_live_nodes(now)
        self._growing: dict[int, int] = {}
        self._grown_at: datetime | None = None

    def poll(self, now: datetime, holder_pid: int | None = None) -> list[LiveEvent]:
        """Return what happened since the last call. `holder_pid` is the process that runs a ledger in a file.

        Raises TailBroken if that cannot be said.
        """
        version = self._reader.version()
        if version == self._version and timedelta(0) <= now - self._looked_at < QUIET_INTERVAL:
            return []
        self._version, self._looked_at, self._holder_pid = version, now, holder_pid
        position = self._reader.ledger_position()
        events = [
            *self._poll_change_events(),
            *self._poll_run_events(),
            *self._poll_beat_events(),
            *self._poll_growth_events(now),
            *self._poll_hint_events(now),
            *self._poll_node_events(now),
            *self._poll_aggregate_events(now),
        ]
        for mark, last_id in (
            (self._beats, position.beat),
            (self._runs, position.run),
            (self._changes, position.change),
        ):
            mark.advance(last_id, position.oldest_open, position.next_transaction, now)
            if mark.is_stuck(now):
                raise TailBroken
        return _summarize(events)

    def _poll_run_events(self) -> Iterable[LiveEvent]:
        new = self._runs.take_new(self._reader.runs_after(self._runs.mark, MAX_ROWS + 1))
        if len(new) > MAX_ROWS:
            raise TailBroken
        still_open = _to_comparable(self._reader.open_runs(MAX_ROWS + 1))
        ended = ((self._open_runs or set()) | set(new)) - (still_open or set())
        self._open_runs = still_open
        records = {run.id: run for run in self._reader.runs_by_id({*new, *ended})}
        yield from (_build_run_started(records[each]) for each in new if each in records)
        for run in (records[each] for each in new if each in records):
            if run.source is Source.RULE_TRIGGER and run.attempt == 1:
                yield _build_rule_fired(run.schedule, run.origin, "")
        for run in (records[each] for each in sorted(ended) if each in records):
            if run.status is not RunStatus.RUNNING:
                yield _build_run_finished(run)

    def _poll_beat_events(self) -> Iterable[LiveEvent]:
        new = self._beats.take_new(self._reader.beats_after(self._beats.mark, MAX_ROWS + 1))
        if len(new) > MAX_ROWS:
            raise TailBroken
        still_open = _to_comparable(self._reader.open_beats(MAX_ROWS + 1))
        settled = ((self._open_beats or set()) | set(new)) - (still_open or set())
        self._open_beats = still_open
        for beat in sorted(self._reader.beats_by_id(settled), key=lambda each: each.id):
            if beat.outcome not in _OPEN_OUTCOMES:
                yield _build_beat_settled(beat)

    def _poll_aggregate_events(self, now: datetime) -> Iterable[LiveEvent]:
        """Yield the targets whose number of open rows has changed, if those are too many to be compared one by one."""
        if self._counts is not None and timedelta(0) <= now - self._counted_at < COUNT_INTERVAL:
            return
        before, self._counts, self._counted_at = self._counts, self._count_open_rows(), now
        if before is None and self._counts is None:
            return
        after = self._reader.open_counts() if self._counts is None else self._counts
        targets = {name for name, count in {*(before or {}).items()} ^ {*after.items()}}
        if before is not None and targets:
            yield LiveEvent("changed", "", {"targets": sorted(targets), "counts": {"open": sum(after.values())}})

    def _count_open_rows(self) -> dict[str, int] | None:
        """Return the open rows of each target; None if they are few enough to be compared one by one."""
        return self._reader.open_counts() if self._open_runs is None or self._open_beats is None else None

    def _poll_growth_events(self, now: datetime) -> Iterable[LiveEvent]:
        """Yield rows of skips and misses that count more instants. No index has them, so they are read less often."""
        if self._grown_at is not None and now - self._grown_at < GROWING_INTERVAL:
            return
        is_first, self._grown_at = self._grown_at is None, now
        if self._reader.count_all_schedules() > MAX_SCHEDULES_FOR_GROWTH:
            return
        before, self._growing = self._growing, self._reader.growing_beats(MAX_ROWS)
        grown = [each for each, count in self._growing.items() if each in before and before[each] != count]
        if not is_first and grown:
            yield from (_build_beat_settled(beat) for beat in self._reader.beats_by_id(grown))

    def _poll_change_events(self) -> Iterable[LiveEvent]:
        found = {change.id: change for change in self._reader.changes_after(self._changes.mark, MAX_ROWS + 1)}
        changes = [found[each] for each in self._changes.take_new(found)]
        if len(changes) > MAX_ROWS:
            raise TailBroken
        by_files = [each for each in changes if each.who in _FILE_ACTORS and each.what in _FILE_CHANGES]
        if by_files:
            counts = Counter(str(each.what) for each in by_files)
            yield LiveEvent("config.applied", "", {"at": format_timestamp(by_files[-1].at), **counts})
        yield from (_build_config_rejected(each) for each in changes if each.what is ChangeKind.REJECT)
        others = [each for each in changes if each.what is not ChangeKind.REJECT]
        yield from (_build_schedule_changed(each) for each in others if not each.subject.startswith(_TOKEN_SUBJECT))

    def _poll_hint_events(self, now: datetime) -> Iterable[LiveEvent]:
        before, self._hints = self._hints, self._load_active_hints(now)
        new = [self._hints[each] for each in self._hints.keys() - before.keys()]
        yield from (_build_hint_event("hint.set", each) for each in new)
        yield from (_build_rule_fired(each.schedule, each.origin, each.reason) for each in new if _is_rule(each.origin))
        yield from (_build_hint_event("hint.ended", before[each]) for each in before.keys() - self._hints.keys())

    def _poll_node_events(self, now: datetime) -> Iterable[LiveEvent]:
        before, self._nodes = self._nodes, self._load_live_nodes(now)
        yield from (_build_node_event("node.joined", self._nodes[each]) for each in self._nodes.keys() - before.keys())
        yield from (_build_node_event("node.lost", before[each]) for each in before.keys() - self._nodes.keys())

    def _load_active_hints(self, now: datetime) -> dict[int, HintRecord]:
        if not self._reader.has_hints():
            return {}
        records = self._reader.hints(None, ended_since=now, limit=MAX_ROWS)
        return {each.id: each for each in records if each.ended_at is None and each.expires_at > now}

    def _load_live_nodes(self, now: datetime) -> dict[int, NodeRecord]:
        found = find_nodes(self._reader, now, limit=MAX_ROWS, holder_pid=self._holder_pid, include_stopped=False)
        return {each.record.id: each.record for each in found if each.state is NodeState.ALIVE}


def _to_comparable(ids: Sequence[int]) -> set[int] | None:
    """Return the ids of open rows; None if there are more than are compared one by one."""
    return set(ids) if len(ids) <= MAX_ROWS else None


def _summarize(events: Sequence[LiveEvent]) -> list[LiveEvent]:
    """A burst becomes one event that names the targets and counts the rest: a page reads those again anyway."""
    if len(events) <= MAX_EVENTS_PER_TICK:
        return list(events)
    crowds = [each for each in events if each.name == "changed"]
    targets = {each.subject.partition("/")[0] for each in events if each.subject}
    counts = dict(Counter(each.name for each in events if each.name != "changed"))
    return [*crowds, LiveEvent("changed", "", {"targets": sorted(targets), "counts": counts})]


def _build_run_started(run: RunRecord) -> LiveEvent:
    data = {"started_at": format_timestamp(run.began_at), "attempt": run.attempt, "source": run.source}
    return LiveEvent("run.started", run.schedule, {**_build_run_data(run), **data, "origin": run.origin})


def _build_run_finished(run: RunRecord) -> LiveEvent:
    took = None if run.finished_at is None else round(run.elapsed(run.finished_at).total_seconds() * 1000)
    data = {"status": run.status, "took_ms": took, "error": run.error, "source": run.source}
    return LiveEvent("run.finished", run.schedule, {**_build_run_data(run), **data})


def _build_run_data(run: RunRecord) -> JsonObject:
    return {"run": format_short_id(run.id), "schedule": run.schedule, "beat": format_short_id(run.beat_id)}


def _build_beat_settled(beat: BeatRecord) -> LiveEvent:
    data: JsonObject = {
        "beat": format_short_id(beat.id),
        "schedule": beat.schedule,
        "due_at": format_timestamp(beat.due_at),
        "last_due_at": format_optional_timestamp(beat.last_due_at),
        "count": beat.count,
        "reason": beat.reason,
        "result": beat.result,
    }
    return LiveEvent(f"beat.{beat.outcome}", beat.schedule, data)


def _build_config_rejected(change: Change) -> LiveEvent:
    return LiveEvent("config.rejected", "", {"at": format_timestamp(change.at), **(change.after or {})})


def _build_schedule_changed(change: Change) -> LiveEvent:
    data: JsonObject = {"what": change.what, "subject": change.subject, "who": change.who}
    return LiveEvent("schedule.changed", change.subject, {**data, "at": format_timestamp(change.at)})


def _is_rule(origin: str) -> bool:
    return origin.startswith(_RULE_PREFIX)


def _build_rule_fired(schedule: str, origin: str, reason: str) -> LiveEvent:
    data: JsonObject = {"schedule": schedule, "rule": origin.removeprefix(_RULE_PREFIX), "reason": reason}
    return LiveEvent("rule.fired", schedule, data)


def _build_hint_event(name: str, hint: HintRecord) -> LiveEvent:
    data: JsonObject = {
        "schedule": hint.schedule,
        "every": None if hint.every is None else format_duration(hint.every),
        "at": format_optional_timestamp(hint.at),
        "origin": hint.origin,
        "reason": hint.reason,
    }
    return LiveEvent(name, hint.schedule, data)


def _build_node_event(name: str, node: NodeRecord) -> LiveEvent:
    return LiveEvent(name, "", {"node": format_short_id(node.id), "host": node.host, "pid": node.pid})


CHECK_INTERVAL = timedelta(seconds=5)
_BEGINNINGS = {
    ConditionKind.LATE: "schedule.late",
    ConditionKind.FAILING: "schedule.failing",
    ConditionKind.BUDGET: "budget.exceeded",
}
_RECOVERING = (ConditionKind.LATE, ConditionKind.FAILING)

Conditions = Mapping[tuple[ConditionKind, str], ActiveCondition]


@dataclass(slots=True)
class ConditionTail:
    """Compares the conditions with those of the last poll. The first poll is where a listener begins."""

    source: ConditionSource
    _known: Conditions | None = None
    _checked_at: datetime | None = None

    def poll(self, now: datetime, holder_pid: int | None) -> list[LiveEvent]:
        """Return what has begun and ended since the last look. `holder_pid` is the process that runs the fleet."""
        if self._checked_at is not None and timedelta(0) <= now - self._checked_at < CHECK_INTERVAL:
            return []
        self._checked_at, self.source.pid = now, holder_pid or 0
        found = {(each.kind, each.subject): each for each in self.source.read(now, frozenset(_BEGINNINGS))}
        known, self._known = self._known, found
        return [] if known is None else list(compare_conditions(known, found, now))


def compare_conditions(before: Conditions, after: Conditions, now: datetime) -> Iterator[LiveEvent]:
    """Yield the events that lie between two polls. Pure."""
    for key, condition in after.items():
        if key not in before:
            yield LiveEvent(_BEGINNINGS[condition.kind], condition.subject, _describe(condition, condition.since))
    for key, condition in before.items():
        if key not in after and condition.kind in _RECOVERING:
            data = {**_describe(condition, condition.since), "at": format_timestamp(now)}
            yield LiveEvent("schedule.recovered", condition.subject, data)


def _describe(condition: ActiveCondition, since: datetime | None) -> JsonObject:
    data: JsonObject = {"schedule": condition.subject, "condition": condition.kind, "detail": condition.detail}
    return {**data, "since": None if since is None else format_timestamp(since)}
