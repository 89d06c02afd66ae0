"""What only people who look at a fleet ask of the ledger: quick, however many schedules and beats there are."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import BeatMark, RunDetails, ScheduleRecord, TimelineSpan
from herdbeat.domain.run import RunStatus
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.reader import READER_SQL_FILES as ASKED_BY_ALL
from herdbeat.store.reader import Reader
from herdbeat.store.sqlite_asking import SqliteReadConnection

QUERY_READER_SQL_FILES = (*ASKED_BY_ALL, "looking")

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
