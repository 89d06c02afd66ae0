"""The instants of a past window, run now: each a beat of its own beside what became of that instant at its time.

They wait like any other beat, paced as a catch-up is, behind everything that comes due by itself. They never move the
schedule's anchor or next run, and their failures do not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.plan import Plan
from herdbeat.domain.trigger import Calendar, TriggerKind
from herdbeat.errors import Conflict
from herdbeat.moments import format_moment
from herdbeat.scheduler.room import Pacer
from herdbeat.store.base import NewBeat, Standing, Transaction

BEHIND = 1_000_000
"""Taken off the priority: the past can wait, what is due now cannot."""

MOST = 10_000
"""More beats than this are not written in one go."""

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From an instant on, up to and without another: `--from 1 March --until 8 March` is seven days."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The number of the backfill, its instants, and when the last of them may start."""

    number: int
    instants: tuple[datetime, ...]
    last_start_at: datetime


def count_in(plan: Plan, window: Window) -> int:
    """How many instants the window has, by arithmetic. Active hours are left out of it where there are too many."""
    trigger, inside = _calendar(plan), _in_life(plan, window)
    count = trigger.count(inside.start - _TICK, inside.end - _TICK) if inside.start < inside.end else 0
    if plan.policies.active_hours is None or count > MOST:
        return count
    return sum(1 for _ in instants_in(plan, window))


def instants_in(plan: Plan, window: Window) -> Iterator[datetime]:
    """The instants that the clock would have run: those of the calendar, inside the life and hours of the schedule."""
    trigger, inside, hours = _calendar(plan), _in_life(plan, window), plan.policies.active_hours
    instant = trigger.next_time(None, inside.start - _TICK)
    while instant is not None and instant < inside.end:
        if hours is None or hours.contains(instant):
            yield instant
        instant = trigger.next_time(None, instant)


def backfill(
    tx: Transaction, now: datetime, schedule_id: int, instants: tuple[datetime, ...], *, origin: str, rate: float
) -> Filled:
    """Write them down, due now, at most `rate` starts a second. A repeated backfill has the next number."""
    standing = tx.schedules([schedule_id])[schedule_id]
    number, starts = tx.last_backfill(schedule_id) + 1, Pacer(rate).starts(len(instants), now)
    pairs = zip(instants, starts, strict=True)
    beats = [_beat(now, standing, each, number, origin, start) for each, start in pairs]
    tx.add_beats(beats)
    last = max((beat.wake_at for beat in beats if beat.wake_at is not None), default=now)
    return Filled(number=number, instants=instants, last_start_at=last)


def _beat(now: datetime, standing: Standing, due_at: datetime, number: int, origin: str, wake_at: datetime) -> NewBeat:
    """`due_at` is the past instant: it is what a prompt calls `fire_time`."""
    return NewBeat(
        schedule_id=standing.id,
        target_id=standing.target_id,
        dedup_id=f"{Source.BACKFILL}:{format_moment(due_at)}#{number}",
        due_at=due_at,
        last_due_at=due_at,
        number=1,
        outcome=BeatOutcome.PENDING,
        reason=Source.BACKFILL,
        source=Source.BACKFILL,
        origin=origin,
        priority=standing.plan.policies.priority - BEHIND,
        wake_at=wake_at,
        created_at=now,
    )


def _calendar(plan: Plan) -> Calendar:
    trigger = plan.trigger
    if isinstance(trigger, Calendar) and trigger.kind is TriggerKind.CRON:
        return trigger
    raise Conflict(_WHY_NOT.get(trigger.kind, "Only an event fires it, so its past has no instants."), hint=_RUN_IT)


_RUN_IT = "Run it by hand instead: herdbeat run"
_WHY_NOT = {
    TriggerKind.INTERVAL: "An interval has no instants of its own in the past: each counted from the end of a run.",
    TriggerKind.DELAY: "A delay has one instant in its life, and no window of them.",
}


def _in_life(plan: Plan, window: Window) -> Window:
    """What `starts_at` and `ends_at` leave of it. The very moment of `ends_at` still belongs to the schedule's life."""
    bounds = plan.policies.bounds
    start = window.start if bounds.starts_at is None else max(window.start, bounds.starts_at)
    end = window.end if bounds.ends_at is None else min(window.end, bounds.ends_at + _TICK)
    return Window(start=start, end=end)
