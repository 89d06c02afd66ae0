"""The shortest way to the beats and runs that are wanted: which index leads there, and when to read from the newest.

One statement with every filter in it would be asked the slowest way: SQLite cannot know which filters are given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.run import RunStatus
from herdbeat.store.micros import to_micros

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
