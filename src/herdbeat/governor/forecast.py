"""How often a schedule will run, roughly: for plans, where a preview of every instant would be too dear."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.policies import Limits
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import CalendarTrigger
from herdbeat.governor.decide import decide
from herdbeat.governor.state import ScheduleState

# What the governor will answer from now on, if every run takes no time and succeeds.


def forecast_decisions(now: datetime, state: ScheduleState) -> Iterator[Decision]:
    """The next runs, one decision each. Endless for most schedules: take as many as you need."""
    while True:
        decision = decide(now, state)
        if decision.wake_at is None:
            return
        now = decision.wake_at
        if decision.source is Source.PAUSED or decision.next_run_at != now:
            continue  # only a moment to decide again: a pause or a hint ends
        yield decision
        assert decision.due_at is not None
        state = state.settled(decision.due_at, now)


_DAY, _WEEK = timedelta(days=1), timedelta(days=7)


def estimate_runs_per_day(timing: TimingPolicy, now: datetime) -> float:
    """The mean of the coming week. It supposes that runs take no time and succeed; events are not foreseen."""
    trigger = timing.trigger
    if trigger.interval is not None:
        return _DAY / clamp_interval(trigger.interval, timing.limits)
    if isinstance(trigger, CalendarTrigger):
        return trigger.count(now, now + _WEEK) / 7
    due = trigger.next_time(None, now)
    return 1 / 7 if due is not None and now <= due < now + _WEEK else 0.0


def clamp_interval(interval: timedelta, limits: Limits) -> timedelta:
    """A pace within the hard limits, as the clamps would make it."""
    if limits.at_least is not None:
        interval = max(interval, limits.at_least)
    return interval if limits.at_most is None else min(interval, limits.at_most)
