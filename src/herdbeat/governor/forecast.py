"""Forecasts: the coming decisions of a schedule, and an estimate of how often it runs.

Both assume that every run takes no time and succeeds.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.policies import Limits
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
        now = decision.wake_at
        if decision.source is Source.PAUSED or decision.next_run_at != now:
            continue  # not a run, only a time to decide again: a pause or a hint ends
        yield decision
        assert decision.due_at is not None
        state = state.settled(decision.due_at, now)


def estimate_runs_per_day(timing: TimingPolicy, now: datetime) -> float:
    """Return the mean of the coming week, without events. Cheaper than a forecast, for plans of many schedules."""
    trigger = timing.trigger
    if trigger.interval is not None:
        return _DAY / clamp_interval(trigger.interval, timing.limits)
    if isinstance(trigger, CalendarTrigger):
        return trigger.count(now, now + _WEEK) / 7
    due = trigger.next_time(None, now)
    return 1 / 7 if due is not None and now <= due < now + _WEEK else 0.0


def clamp_interval(interval: timedelta, limits: Limits) -> timedelta:
    """Return the interval as the hard limits change it."""
    if limits.at_least is not None:
        interval = max(interval, limits.at_least)
    return interval if limits.at_most is None else min(interval, limits.at_most)
