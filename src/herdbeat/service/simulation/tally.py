"""The tally of a simulation: what is counted while the clock moves, because the ledger does not keep it."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.run import Claim
from herdbeat.store.base import FinishedRun

MAX_COLLISIONS = 10
"""Moments with the most starts that are kept with their schedules."""

MAX_NAMED_SCHEDULES = 5

_SECOND = timedelta(seconds=1)


class Collision(NamedTuple):
    """A second in which several schedules start."""

    starts: int
    at: datetime
    schedule_ids: tuple[int, ...]


class _Queued(NamedTuple):
    since: datetime
    reason: str


@dataclass(slots=True)
class ScheduleTally:
    """Runs of one schedule. `lateness` has what each start waited beyond its planned time, if it did."""

    runs: int = 0
    failed: int = 0
    limited: int = 0
    busy: timedelta = timedelta(0)
    usd: float = 0.0
    lateness: list[float] = field(default_factory=list)
    waits: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    schedules: dict[int, ScheduleTally] = field(default_factory=lambda: defaultdict(ScheduleTally))
    starts_by_hour: Counter[datetime] = field(default_factory=Counter)
    usd_by_hour: dict[datetime, float] = field(default_factory=lambda: defaultdict(float))
    active: int = 0
    most_active: int = 0
    collision_seconds: int = 0
    collisions: list[Collision] = field(default_factory=list)
    holds: list[AccountHold] = field(default_factory=list)
    _second: datetime | None = None
    _in_second: list[int] = field(default_factory=list)
    _queued: dict[tuple[int, str], _Queued] = field(default_factory=dict)

    def add_queued(self, schedule_id: int, dedup_id: str, reason: str, now: datetime) -> None:
        """A beat is due and cannot start yet. From here on it is late."""
        self._queued.setdefault((schedule_id, dedup_id), _Queued(now, reason))

    def add_start(self, claim: Claim, now: datetime) -> None:
        counted = self.schedules[claim.schedule_id]
        counted.runs += 1
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        self.starts_by_hour[now.replace(minute=0, second=0, microsecond=0)] += 1
        queued = self._queued.pop((claim.schedule_id, claim.dedup_id), None)
        if queued is not None:
            counted.lateness.append((now - queued.since).total_seconds())
            counted.waits[queued.reason] += 1
        self._count_collision(claim.schedule_id, now.replace(microsecond=0))

    def add_finished(self, claim: Claim, run: FinishedRun, now: datetime) -> None:
        counted = self.schedules[claim.schedule_id]
        self.active -= 1
        if run.outcome.was_refused:
            counted.limited += 1  # no failure: its beat waits until the account opens
            self.add_queued(claim.schedule_id, claim.dedup_id, SkipReason.RATE_LIMITED, now)
        else:
            counted.failed += run.outcome.status.is_failure
        if run.started_at is not None:
            counted.busy += now - run.started_at
        usd = run.outcome.usage.get("usd", 0.0)
        counted.usd += usd
        if usd:
            self.usd_by_hour[now.replace(minute=0, second=0, microsecond=0)] += usd

    def add_holds(self, holds: Iterable[AccountHold]) -> None:
        self.holds += holds

    def close(self) -> None:
        """Count the last second."""
        self._close_second()

    def _count_collision(self, schedule_id: int, second: datetime) -> None:
        if second != self._second:
            self._close_second()
            self._second = second
        if schedule_id not in self._in_second:
            self._in_second.append(schedule_id)

    def _close_second(self) -> None:
        starts, self._in_second = self._in_second, []
        if len(starts) < 2 or self._second is None:
            return
        self.collision_seconds += 1
        collision = Collision(len(starts), self._second, tuple(starts[:MAX_NAMED_SCHEDULES]))
        self.collisions = heapq.nlargest(MAX_COLLISIONS, [*self.collisions, collision], key=_rank)


def _rank(collision: Collision) -> tuple[int, float]:
    """More starts first; of equal ones the earlier."""
    return collision.starts, -collision.at.timestamp()
