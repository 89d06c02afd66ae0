"""Active hours: which past instants lay outside of them. Pure.

Outside the hours an instant of a calendar does not run, whether a node was alive or not: it is skipped as
`inactive_hours`. A whole night is one row; a long outage costs two ranges a day, not one per instant.
"""

from datetime import datetime, timedelta

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import ActiveHours
from herdbeat.domain.trigger import CalendarTrigger, Trigger
from herdbeat.scheduler.instants import InstantRange, due_since, split_at
from herdbeat.store.base import ScheduleSnapshot

_TICK = timedelta(microseconds=1)
_CALENDAR_OVERRIDES = frozenset({Source.AI_INTERVAL, Source.CLAMPED_MIN, Source.CLAMPED_MAX})
"""With these the calendar's own instants are not due, so none of them can have been passed over."""


def split_by_active_hours(
    trigger: Trigger, instants: InstantRange, hours: ActiveHours | None
) -> tuple[list[InstantRange], list[InstantRange]]:
    """Return the instants inside and those outside, each as ranges in order of time. Without hours all are inside.

    Only those of a calendar are split: any other due time was moved to an opening when it was decided.
    """
    if hours is None or not isinstance(trigger, CalendarTrigger):
        return [instants], []
    inside: list[InstantRange] = []
    outside: list[InstantRange] = []
    rest: InstantRange | None = instants
    while rest is not None:
        is_inside = hours.contains(rest.first)
        edge = hours.next_closing(rest.first) if is_inside else hours.next_opening(rest.first)
        instant_range, rest = split_at(trigger, rest, max(edge - _TICK, rest.first))
        assert instant_range is not None
        (inside if is_inside else outside).append(instant_range)
    return inside, outside


def skipped_outside_hours(snapshot: ScheduleSnapshot, now: datetime) -> InstantRange | None:
    """Return the calendar's instants between the last settled and the next due one: all lay outside the hours."""
    trigger, policies = snapshot.plan.trigger, snapshot.plan.policies
    if not isinstance(trigger, CalendarTrigger) or snapshot.next_source in _CALENDAR_OVERRIDES:
        return None
    since, starts_at = snapshot.settled_until, policies.bounds.starts_at
    if starts_at is not None:
        since = max(since, starts_at - _TICK)  # before its start nothing is due
    until = now if snapshot.next_due_at is None else min(now, snapshot.next_due_at - _TICK)
    if policies.bounds.ends_at is not None:
        until = min(until, policies.bounds.ends_at)
    first = trigger.next_time(None, since)
    return due_since(trigger, first, until) if first is not None and first <= until else None
