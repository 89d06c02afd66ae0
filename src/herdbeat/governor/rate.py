"""How often a schedule will run, roughly: for plans, where a preview of every instant would be too dear."""

from datetime import datetime, timedelta

from herdbeat.domain.policies import Limits
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import CalendarTrigger

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
