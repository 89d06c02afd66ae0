"""Reading episodes, and what conditions are computed from. A part of the reader of the ledger."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from herdbeat.domain.ids import display_name
from herdbeat.domain.run_status import RunStatus
from herdbeat.timestamps import from_micros, to_micros

if TYPE_CHECKING:
    from herdbeat.domain.notification import Episode


class FailingSchedule(NamedTuple):
    schedule_id: int
    label: str
    failures: int
    error: str
    last_run_at: datetime
    plan_id: int


class UnstartedBeat(NamedTuple):
    """An instant that was missed, or had no budget. A later run of its schedule makes it good."""

    id: int
    label: str
    schedule_id: int
    outcome: str
    due_at: datetime
    instants: int
    plan_id: int
    settled_at: datetime
    is_made_good: bool


class EndedRuns(NamedTuple):
    """The runs of one schedule that ended in one way in a time, and what they cost as far as that is known.

    `limited` of them were refused at a usage limit.
    """

    label: str
    plan_id: int
    status: RunStatus
    runs: int
    limited: int
    usd: float | None


class MissedInstants(NamedTuple):
    label: str
    plan_id: int
    instants: int


class EpisodeReader(ABC):
    """A base of `Reader`, which knows how to query."""

    @abstractmethod
    def _query(self, statement: str, **values: object) -> list[Any]: ...

    def episodes(self, *, only_open: bool = False, limit: int = 100) -> "list[Episode]":
        """Return episodes, the open ones first, then the newest."""
        return [read_episode(row) for row in self._query("list_episodes", open=int(only_open), limit=limit)]

    def failing_rows(self, limit: int) -> list[FailingSchedule]:
        """Return the enabled schedules whose last run failed or could not start, in few columns: there may be many."""
        return [
            FailingSchedule(number, display_name(target, name), failures, error, from_micros(last), plan_id)
            for number, target, name, failures, error, last, plan_id in self._query("failing_rows", limit=limit)
        ]

    def unstarted_after(self, beat_id: int, since: datetime, limit: int) -> list[UnstartedBeat]:
        """Return those after a beat that were settled since a moment."""
        rows = self._query("unstarted_after", after=beat_id, since=to_micros(since), limit=limit)
        return [_read_unstarted(row) for row in rows]

    def unstarted_of(self, beat_ids: Iterable[int]) -> list[UnstartedBeat]:
        return [_read_unstarted(row) for row in self._query("unstarted_of", ids=list(beat_ids))]

    def unstarted_of_schedules(self, schedule_ids: Iterable[int]) -> list[UnstartedBeat]:
        return [_read_unstarted(row) for row in self._query("unstarted_of_schedules", ids=list(schedule_ids))]

    def runs_ended_between(self, since: datetime, until: datetime) -> list[EndedRuns]:
        rows = self._query("runs_ended_between", since=to_micros(since), until=to_micros(until))
        return [
            EndedRuns(display_name(target, name), plan_id, RunStatus(status), count, limited, usd)
            for target, name, plan_id, status, count, limited, usd in rows
        ]

    def missed_between(self, since: datetime, until: datetime) -> list[MissedInstants]:
        rows = self._query("missed_between", since=to_micros(since), until=to_micros(until))
        return [MissedInstants(display_name(target, name), plan_id, count) for target, name, plan_id, count in rows]

    def newest_beat_id(self) -> int:
        return int(self._query("newest_beat_id")[0][0])

    def plan_text(self, plan_id: int) -> str:
        return str(self._query("plan_text", id=plan_id)[0][0])


def read_episode(row: Sequence[Any]) -> "Episode":
    """Read the columns of `episode_columns`."""

    from herdbeat.domain.notification import ConditionKind, Episode  # noqa: PLC0415 - few commands need it

    number, channel, condition, subject, detail, began_at, opened_at, schedule_id, *moments = row
    clear_since, ended_at, told_at, end_told_at, acked_by, snoozed_until = moments
    return Episode(
        id=number,
        channel=channel,
        condition=ConditionKind(condition),
        subject=subject,
        detail=detail,
        began_at=from_micros(began_at),
        opened_at=from_micros(opened_at),
        schedule_id=schedule_id,
        clear_since=_moment(clear_since),
        ended_at=_moment(ended_at),
        told_at=_moment(told_at),
        end_told_at=_moment(end_told_at),
        acked_by=acked_by,
        snoozed_until=_moment(snoozed_until),
    )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def _read_unstarted(row: Sequence[Any]) -> UnstartedBeat:
    number, target, name, schedule_id, outcome, due_at, count, plan_id, settled_at, is_made_good = row
    return UnstartedBeat(
        number,
        display_name(target, name),
        schedule_id,
        outcome,
        from_micros(due_at),
        count,
        plan_id,
        from_micros(settled_at),
        bool(is_made_good),
    )
