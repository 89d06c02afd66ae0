"""What only people who look at a fleet ask of the ledger: quick, however many schedules and beats there are."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import RunDetails, ScheduleRecord, Span, StripMark
from herdbeat.domain.run import RunStatus
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.reader import SHEETS as ASKED_BY_ALL
from herdbeat.store.reader import Reader
from herdbeat.store.sqlite_asking import SqliteAsking

SHEETS = (*ASKED_BY_ALL, "looking")

_CLOCKS = ("cron", "delay", "interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Which schedules: those that any name, tag or group means (all, if there are none), in a state if one is given."""

    now: datetime
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    state: str | None = None
    after: int | None = None
    limit: int = 50

    @property
    def is_narrow(self) -> bool:
        return bool(self.names or self.tags or self.groups)


class LookReader(Reader):
    """A reader with more questions."""

    def find(self, look: Look) -> list[ScheduleRecord]:
        """In the order they were written down. Of a state it gives too many rather than too few."""
        ids = self._ids("looked_for_ids", after=look.after, limit=look.limit, **self._values(look))
        return self.schedules_of(ids)

    def number_of(self, look: Look) -> int:
        """How many there are, of any state that `find` would give."""
        if not look.is_narrow and look.state is None:
            return self.number_of_schedules()
        return int(self._one("number_looked_for", **self._values(look))[0])

    def known_marks(self) -> set[str]:
        """Every tag and every group."""
        return {mark for (mark,) in self._rows("known_marks")}

    def strips(self, schedule_ids: Iterable[int], length: int) -> dict[int, list[StripMark]]:
        """What became of the last beats of each schedule, the oldest first."""
        ids = {beat for number in schedule_ids for beat in self._newest_beats(number, length)}
        strips: dict[int, list[StripMark]] = {}
        for beat, schedule, outcome, count, status in self._rows("marks_of", ids=list(ids)):
            mark = StripMark(
                beat=beat, outcome=BeatOutcome(outcome), status=RunStatus(status) if status else None, number=count
            )
            strips.setdefault(schedule, []).append(mark)
        return {schedule: marks[-length:] for schedule, marks in strips.items()}

    def oldest_waiting(self, schedule_ids: Iterable[int]) -> dict[int, datetime]:
        """Since when these schedules have a beat that waits; those without one are left out."""
        rows = self._rows("oldest_waiting", ids=list(schedule_ids))
        return {schedule: from_micros(due_at) for schedule, due_at in rows}

    def has_hints(self) -> bool:
        """Whether any schedule has a hint that was not ended."""
        return bool(self._one("any_hint")[0])

    def details(self, run_id: int) -> RunDetails:
        response, usage, session, note, host, pid, version = self._one("run_details", id=run_id)
        return RunDetails(
            response=_loaded(response),
            usage=_loaded(usage) or {},
            session=session or "",
            note=note or "",
            host=host or "",
            pid=pid,
            version=version or "",
        )

    def target_named(self, name: str) -> tuple[int, str, int] | None:
        """Its id, where it is written, and how many of its runs are going."""
        row = self._row("target_id", name=name)
        return None if row is None else (row[0], row[1], row[2])

    def recent_lateness(self, limit: int) -> list[timedelta]:
        """How long after their time the last beats of the clock were found."""
        rows = self._rows("recent_lateness", limit=limit)
        return [timedelta(microseconds=max(0, micros)) for (micros,) in rows]

    def oldest_overdue(self, now: datetime) -> datetime | None:
        """The longest overdue moment at which somebody should have looked at a schedule."""
        (micros,) = self._one("oldest_overdue", now=to_micros(now))
        return None if micros is None else from_micros(micros)

    def active_since(self, moment: datetime, limit: int) -> list[int]:
        """Schedules to which something may have happened since then."""
        return self._ids("active_ids", since=to_micros(moment), limit=limit)

    def spans(self, schedule_ids: Iterable[int], since: datetime, until: datetime, limit: int) -> list[Span]:
        """What took place in a time, the newest first. A beat of several runs comes once for each."""
        ids = list(schedule_ids)
        rows = self._rows("spans", ids=ids, since=to_micros(since), until=to_micros(until), limit=limit)
        return [_span(row) for row in rows]

    def newest_run(self) -> int:
        return int(self._one("newest_run")[0])

    def runs_after(self, run_id: int, limit: int) -> list[int]:
        return self._ids("runs_after", after=run_id, limit=limit)

    def still_running(self, run_ids: Iterable[int]) -> set[int]:
        return set(self._ids("still_running", ids=list(run_ids)))

    def version(self) -> int:
        """Another number as soon as anybody has written anything: cheap to ask, ten times a second."""
        return int(self._one("data_version")[0])

    def first_run_since(self, moment: datetime) -> int:
        """The id of the first run claimed at or after a moment; past the last one if there is none.

        Ids rise with time, and no index has the time of a claim: so it is looked up as in a dictionary.
        """
        low, high, wanted = 1, self.newest_run() + 1, to_micros(moment)
        while low < high:
            middle = (low + high) // 2
            number, claimed_at = self._one("first_run_since", id=middle)
            if claimed_at < wanted:
                low = number + 1
            else:
                high = middle
        return low

    def _newest_beats(self, schedule: int, length: int) -> Iterable[int]:
        """Those of the clock by their ids, and those of events, which have runs, by their runs."""
        for kind in _CLOCKS:
            yield from self._ids("clock_beats", schedule=schedule, first=f"{kind}:", last=f"{kind};", limit=length)
        yield from self._ids("beats_of_newest_runs", schedule=schedule, limit=length)

    def _values(self, look: Look) -> dict[str, object]:
        names = [self._asking.pattern(_whole(each)) for each in look.names] if look.is_narrow else None
        plans: list[int] = []
        if look.tags or look.groups:
            plans = self._ids("plans_marked", tags=list(look.tags), groups=list(look.groups))
        return {"names": names, "plans": plans, "state": look.state, "now": to_micros(look.now)}


class SqliteLook(LookReader):
    """The same for a ledger in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteAsking(path, *SHEETS))


def _whole(name: str) -> str:
    """A target alone means all its schedules."""
    return name if "/" in name else f"{name}/*"


def _span(row: Any) -> Span:
    schedule, outcome, due_at, last_due_at, count, status, started_at, finished_at = row
    return Span(
        schedule=schedule,
        outcome=BeatOutcome(outcome),
        due_at=from_micros(due_at),
        last_due_at=from_micros(last_due_at),
        number=count,
        status=RunStatus(status) if status else None,
        started_at=from_micros(started_at),
        finished_at=from_micros(finished_at),
    )


def _loaded(text: str | None) -> Any:
    return None if text is None else json.loads(text)
