"""Backfill: run the instants of a past window now, each as a beat of its own beside the original one.

These beats wait like any other, paced as a catch-up is, behind everything that comes due by itself. They never move the
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
from herdbeat.scheduler.evaluate import build_beat
from herdbeat.scheduler.instants import InstantRange
from herdbeat.store.base import Transaction
from herdbeat.timestamps import format_timestamp

BACKFILL_PRIORITY_PENALTY = 1_000_000
"""Subtracted from the priority: the past can wait, what is due now cannot."""

MAX_BACKFILL_BEATS = 10_000
"""The limit of one backfill."""

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillWindow:
    """From an instant on, up to and without another: `--from 1 March --until 8 March` is seven days."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """Its number, its instants, and when the last of them may start."""

    number: int
    instants: tuple[datetime, ...]
    last_start_at: datetime


def count_instants(plan: ScheduleSpec, window: BackfillWindow) -> int:
    """Count the instants of a window by arithmetic. Above MAX_BACKFILL_BEATS the active hours are left out of it."""
    trigger, clipped = _require_calendar(plan), _clip_to_bounds(plan, window)
    count = trigger.count(clipped.start - _TICK, clipped.end - _TICK) if clipped.start < clipped.end else 0
    if plan.policies.active_hours is None or count > MAX_BACKFILL_BEATS:
        return count
    return sum(1 for _ in iterate_instants(plan, window))


def iterate_instants(plan: ScheduleSpec, window: BackfillWindow) -> Iterator[datetime]:
    """Yield the instants that the clock would have run: those inside the bounds and active hours of the schedule."""
    trigger, clipped, hours = _require_calendar(plan), _clip_to_bounds(plan, window), plan.policies.active_hours
    instant = trigger.next_time(None, clipped.start - _TICK)
    while instant is not None and instant < clipped.end:
        if hours is None or hours.contains(instant):
            yield instant
        instant = trigger.next_time(None, instant)


def enqueue_backfill(
    tx: Transaction, now: datetime, schedule_id: int, instants: tuple[datetime, ...], *, origin: str, rate: float
) -> BackfillResult:
    """Write pending beats for these instants, at most `rate` starts a second. Each backfill has the next number."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    number, start_times = tx.last_backfill(schedule_id) + 1, CatchupPacer(rate).start_times(len(instants), now)
    priority = snapshot.plan.policies.priority - BACKFILL_PRIORITY_PENALTY
    beats = [
        # Due at the past instant, which is what a prompt calls `fire_time`.
        build_beat(
            now,
            snapshot,
            InstantRange.single(instant),
            BeatOutcome.PENDING,
            Source.BACKFILL,
            Source.BACKFILL,
            dedup_id=f"{Source.BACKFILL}:{format_timestamp(instant)}#{number}",
            origin=origin,
            priority=priority,
            wake_at=start_at,
        )
        for instant, start_at in zip(instants, start_times, strict=True)
    ]
    tx.add_beats(beats)
    return BackfillResult(number=number, instants=instants, last_start_at=max(start_times, default=now))


def _require_calendar(plan: ScheduleSpec) -> CalendarTrigger:
    trigger = plan.trigger
    if isinstance(trigger, CalendarTrigger) and trigger.kind is TriggerKind.CRON:
        return trigger
    raise Conflict(_UNSUPPORTED_REASONS.get(trigger.kind, "An event schedule has no past instants."), hint=_RUN_HINT)


_RUN_HINT = "Run it now instead: herdbeat run NAME"
_UNSUPPORTED_REASONS = {
    TriggerKind.INTERVAL: "An interval schedule has no past instants: each one depends on the end of the previous run.",
    TriggerKind.DELAY: "A delay has only one instant.",
}


def _clip_to_bounds(plan: ScheduleSpec, window: BackfillWindow) -> BackfillWindow:
    """Return what `starts_at` and `ends_at` leave of the window. `ends_at` itself is inside."""
    bounds = plan.policies.bounds
    start = window.start if bounds.starts_at is None else max(window.start, bounds.starts_at)
    end = window.end if bounds.ends_at is None else min(window.end, bounds.ends_at + _TICK)
    return BackfillWindow(start=start, end=end)
