"""The instants of a past window, run now: each a beat of its own beside what became of that instant at its time.

They wait like any other beat, paced as a catch-up is, behind everything that comes due by itself. They never move the
schedule's anchor or next run, and their failures do not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.errors import Conflict
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.store.base import NewBeat, ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_timestamp

BACKFILL_PRIORITY_PENALTY = 1_000_000
"""Taken off the priority: the past can wait, what is due now cannot."""

MAX_BACKFILL_BEATS = 10_000
"""More beats than this are not written in one go."""

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillWindow:
    """From an instant on, up to and without another: `--from 1 March --until 8 March` is seven days."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """The number of the backfill, its instants, and when the last of them may start."""

    number: int
    instants: tuple[datetime, ...]
    last_start_at: datetime


def count_instants(plan: ScheduleSpec, window: BackfillWindow) -> int:
    """How many instants the window has, by arithmetic. Active hours are left out of it where there are too many."""
    trigger, clipped = _require_calendar(plan), _clip_to_bounds(plan, window)
    count = trigger.count(clipped.start - _TICK, clipped.end - _TICK) if clipped.start < clipped.end else 0
    if plan.policies.active_hours is None or count > MAX_BACKFILL_BEATS:
        return count
    return sum(1 for _ in iterate_instants(plan, window))


def iterate_instants(plan: ScheduleSpec, window: BackfillWindow) -> Iterator[datetime]:
    """The instants that the clock would have run: those of the calendar, inside the life and hours of the schedule."""
    trigger, clipped, hours = _require_calendar(plan), _clip_to_bounds(plan, window), plan.policies.active_hours
    instant = trigger.next_time(None, clipped.start - _TICK)
    while instant is not None and instant < clipped.end:
        if hours is None or hours.contains(instant):
            yield instant
        instant = trigger.next_time(None, instant)


def enqueue_backfill(
    tx: Transaction, now: datetime, schedule_id: int, instants: tuple[datetime, ...], *, origin: str, rate: float
) -> BackfillResult:
    """Write them down, due now, at most `rate` starts a second. A repeated backfill has the next number."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    number, start_times = tx.last_backfill(schedule_id) + 1, CatchupPacer(rate).start_times(len(instants), now)
    pairs = zip(instants, start_times, strict=True)
    beats = [_build_beat(now, snapshot, each, number, origin, start) for each, start in pairs]
    tx.add_beats(beats)
    last = max((beat.wake_at for beat in beats if beat.wake_at is not None), default=now)
    return BackfillResult(number=number, instants=instants, last_start_at=last)


def _build_beat(
    now: datetime, snapshot: ScheduleSnapshot, due_at: datetime, number: int, origin: str, wake_at: datetime
) -> NewBeat:
    """`due_at` is the past instant: it is what a prompt calls `fire_time`."""
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=f"{Source.BACKFILL}:{format_timestamp(due_at)}#{number}",
        due_at=due_at,
        last_due_at=due_at,
        number=1,
        outcome=BeatOutcome.PENDING,
        reason=Source.BACKFILL,
        source=Source.BACKFILL,
        origin=origin,
        priority=snapshot.plan.policies.priority - BACKFILL_PRIORITY_PENALTY,
        wake_at=wake_at,
        created_at=now,
    )


def _require_calendar(plan: ScheduleSpec) -> CalendarTrigger:
    trigger = plan.trigger
    if isinstance(trigger, CalendarTrigger) and trigger.kind is TriggerKind.CRON:
        return trigger
    raise Conflict(
        _UNSUPPORTED_REASONS.get(trigger.kind, "Only an event fires it, so its past has no instants."), hint=_RUN_HINT
    )


_RUN_HINT = "Run it by hand instead: herdbeat run"
_UNSUPPORTED_REASONS = {
    TriggerKind.INTERVAL: "An interval has no instants of its own in the past: each counted from the end of a run.",
    TriggerKind.DELAY: "A delay has one instant in its life, and no window of them.",
}


def _clip_to_bounds(plan: ScheduleSpec, window: BackfillWindow) -> BackfillWindow:
    """What `starts_at` and `ends_at` leave of it. The very moment of `ends_at` still belongs to the schedule's life."""
    bounds = plan.policies.bounds
    start = window.start if bounds.starts_at is None else max(window.start, bounds.starts_at)
    end = window.end if bounds.ends_at is None else min(window.end, bounds.ends_at + _TICK)
    return BackfillWindow(start=start, end=end)
