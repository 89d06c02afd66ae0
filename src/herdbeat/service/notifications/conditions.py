"""What is wrong with a fleet now, read from its ledger."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.notification import ActiveCondition, ConditionKind
from herdbeat.domain.planned_pause import find_window
from herdbeat.domain.policies import Policies
from herdbeat.service.queries.nodes import NodeState, find_lost_nodes, find_nodes
from herdbeat.service.queries.status import find_late, find_record
from herdbeat.store.episode_reader import UnstartedBeat
from herdbeat.store.reader import Reader
from herdbeat.store.record_mapping import read_plan

MAX_FAILING = 100_000
MAX_SEARCHED_BEATS = 100_000
"""Beats before the start of the process that are searched for missed ones."""

MAX_MISSED_AGE = timedelta(days=1)
"""What was noticed before that is not reported any more. The instants may be older: a fleet may be down for weeks."""

_START_MARGIN = timedelta(minutes=1)
_OVERLAP = 1_000
"""Beats that are read once more: PostgreSQL may commit an older one later."""

_MAX_ROWS = 1_000


@dataclass(slots=True)
class ConditionSource:
    """Reads the conditions. It remembers up to which beat it has read, and which of those are not made good.

    `started_at` is when the process began: what is settled since then was not seen by an earlier one.
    """

    reader: Reader
    started_at: datetime
    pid: int
    _cursor: int | None = None
    _seen: set[int] = field(default_factory=set)
    _unstarted: set[int] = field(default_factory=set)
    _policies: dict[int, Policies] = field(default_factory=dict)

    def read(self, now: datetime, wanted: frozenset[ConditionKind]) -> list[ActiveCondition]:
        """Return all conditions of the wanted kinds that hold now."""
        sources = {
            ConditionKind.FAILING: self._find_failing,
            ConditionKind.LATE: self._find_late,
            ConditionKind.NEEDS_YOU: self._needs_you,
            ConditionKind.RATE_LIMITED: self._find_rate_limited,
            ConditionKind.NODE_LOST: self._find_lost_nodes,
        }
        found = [each for kind, read in sources.items() if kind in wanted for each in read(now)]
        if wanted & {ConditionKind.MISSED, ConditionKind.BUDGET}:
            found += [each for each in self._find_not_started(now) if each.kind in wanted]
        return found

    def list_paused_schedules(self, now: datetime) -> frozenset[int]:
        """Return the schedules that are in a planned pause: they are not reported until it ends."""
        windows = self.reader.pause_windows(now)
        return frozenset(number for number, each in windows.items() if find_window(each, now) is not None)

    def _find_failing(self, now: datetime) -> Iterator[ActiveCondition]:  # noqa: ARG002 -- as all of them
        for row in self.reader.failing_rows(MAX_FAILING):
            count = "1 failure" if row.failures == 1 else f"{row.failures} failures in a row"
            count = count if row.failures else "cannot start"
            yield ActiveCondition(
                kind=ConditionKind.FAILING,
                subject=row.label,
                since=row.last_run_at,
                detail=f"{count}: {row.error}" if row.error else count,
                schedule_id=row.schedule_id,
                tags=self._read_tags(row.plan_id),
                failures=row.failures or 1,
            )

    def _find_late(self, now: datetime) -> Iterator[ActiveCondition]:
        for each in find_late(self.reader, now, self.pid):
            record = find_record(self.reader, each.schedule)
            yield ActiveCondition(
                kind=ConditionKind.LATE,
                subject=each.schedule,
                since=each.due_at,
                detail=f"{each.reason}: {each.detail}" if each.detail else each.reason,
                schedule_id=None if record is None else record.id,
                tags=() if record is None else record.plan.policies.tags,
            )

    def _needs_you(self, now: datetime) -> Iterator[ActiveCondition]:  # noqa: ARG002 -- as all of them
        for mark in self.reader.open_attention(_MAX_ROWS):
            record = find_record(self.reader, mark.schedule)
            yield ActiveCondition(
                kind=ConditionKind.NEEDS_YOU,
                subject=mark.schedule,
                since=mark.at,
                detail="; ".join(mark.what),
                schedule_id=None if record is None else record.id,
                tags=() if record is None else record.plan.policies.tags,
            )

    def _find_rate_limited(self, now: datetime) -> Iterator[ActiveCondition]:
        for hold in self.reader.holds(now):
            subject = f"{hold.account} ({hold.model})" if hold.model else hold.account
            detail = f"its beats wait until {hold.until:%Y-%m-%d %H:%M} UTC"
            yield ActiveCondition(kind=ConditionKind.RATE_LIMITED, subject=subject, since=hold.began_at, detail=detail)

    def _find_lost_nodes(self, now: datetime) -> Iterator[ActiveCondition]:
        nodes = find_nodes(self.reader, now, limit=_MAX_ROWS, holder_pid=self.pid, include_stopped=False)
        alive = {each.record.host for each in nodes if each.state is NodeState.ALIVE}
        for node in (each.record for each in find_lost_nodes(nodes)):
            # A node of a file that died is known only to its successor, which says that the fleet was stopped.
            if node.lease_until is not None:
                subject = f"{node.host} (process {node.pid})" if node.host in alive else node.host
                detail = f"last seen {node.seen_at:%Y-%m-%d %H:%M:%S} UTC"
                yield ActiveCondition(kind=ConditionKind.NODE_LOST, subject=subject, since=node.seen_at, detail=detail)

    def _find_not_started(self, now: datetime) -> Iterator[ActiveCondition]:
        """Yield what was not started. An instant that was missed is yielded at least once, also if it is made good."""
        newest = self.reader.newest_beat_id()
        beats = self._find_standing()
        after = newest - MAX_SEARCHED_BEATS if self._cursor is None else self._cursor - _OVERLAP
        found = self.reader.unstarted_after(max(0, after), now - MAX_MISSED_AGE, MAX_FAILING)
        beats += [each for each in found if self._is_new(each)]
        self._cursor, self._seen = newest, {each.id for each in found}
        beats = [each for each in beats if self._is_still_valid(each, now)]
        self._unstarted = {each.id for each in beats}
        for each in beats:
            is_missed = each.outcome == BeatOutcome.MISSED
            yield ActiveCondition(
                kind=ConditionKind.MISSED if is_missed else ConditionKind.BUDGET,
                subject=each.label,
                since=each.due_at,
                detail=f"{each.instants} missed" if is_missed else "",
                schedule_id=each.schedule_id,
                tags=self._read_tags(each.plan_id),
            )

    def _find_standing(self) -> list[UnstartedBeat]:
        """Return what was known before and is not made good: at the start, that of the open episodes."""
        if self._cursor is not None:
            known = self.reader.unstarted_of(self._unstarted) if self._unstarted else []
        else:
            episodes = self.reader.episodes(only_open=True, limit=MAX_FAILING)
            kinds = (ConditionKind.MISSED, ConditionKind.BUDGET)
            schedules = {each.schedule_id for each in episodes if each.condition in kinds} - {None}
            known = self.reader.unstarted_of_schedules(map(int, filter(None, schedules))) if schedules else []
        return [each for each in known if not each.is_made_good]

    def _is_new(self, beat: UnstartedBeat) -> bool:
        if not beat.is_made_good:
            return beat.id not in self._unstarted
        is_of_this_process = beat.settled_at >= self.started_at - _START_MARGIN
        return beat.outcome == BeatOutcome.MISSED and is_of_this_process and beat.id not in self._seen

    def _is_still_valid(self, beat: UnstartedBeat, now: datetime) -> bool:
        """A budget is used up for the rest of the day of its schedule. What was missed stays so until the next run."""
        if beat.outcome == BeatOutcome.MISSED:
            return True
        zone = self._read_policies(beat.plan_id).zone
        return beat.due_at.astimezone(zone).date() == now.astimezone(zone).date()

    def _read_tags(self, plan_id: int) -> tuple[str, ...]:
        return self._read_policies(plan_id).tags

    def _read_policies(self, plan_id: int) -> Policies:
        if plan_id not in self._policies:
            self._policies[plan_id] = read_plan(self.reader.plan_text(plan_id)).policies
        return self._policies[plan_id]
