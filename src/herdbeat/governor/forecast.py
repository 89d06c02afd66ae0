"""Forecasts: the coming decisions of a schedule, and an estimate of how often it runs.

Both assume that every run takes no time and succeeds.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.planned_pause import find_window
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import CalendarTrigger
from herdbeat.governor.decide import decide
from herdbeat.governor.state import ScheduleState

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)


def forecast_decisions(now: datetime, state: ScheduleState) -> Iterator[Decision]:
    """Yield the decisions of the next runs. Endless for most schedules."""
    while True:
        decision = decide(now, state)
        if decision.wake_at is None:
            return
        if decision.source is Source.PAUSED:
            now, state = _end_pause(now, decision.wake_at, state)
            continue
        now = decision.wake_at
        if decision.next_run_at != now or find_window(state.windows, now) is not None:
            continue  # not a run, only a time to decide again: a hint ends, or a planned pause begins
        yield decision
        assert decision.due_at is not None
        state = state.settled(decision.due_at, now)


def _end_pause(now: datetime, ends_at: datetime, state: ScheduleState) -> tuple[datetime, ScheduleState]:
    """Return from when and from which state to decide after a pause. An instant at the end of a planned one runs."""
    window = find_window(state.windows, now)
    if window is None or window.until != ends_at or not isinstance(state.timing.trigger, CalendarTrigger):
        return ends_at, state
    return state.after_window(window)


def estimate_runs_per_day(timing: TimingPolicy, now: datetime) -> float:
    """Return the mean of the coming week, without events. Cheaper than a forecast, for plans of many schedules."""
    trigger = timing.trigger
    if trigger.interval is not None:
        return _DAY / timing.limits.clamp(trigger.interval)
    if isinstance(trigger, CalendarTrigger):
        return trigger.count(now, now + _WEEK) / 7
    due = trigger.next_time(None, now)
    return 1 / 7 if due is not None and now <= due < now + _WEEK else 0.0
