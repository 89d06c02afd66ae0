"""Active hours: which of the instants that have passed lay outside, and which the governor has passed over. Pure.

Outside its hours an instant of a calendar does not run, whether a node was there or not: it is skipped as
`inactive_hours`. A whole night is one row; a long outage costs two pieces a day, not one per instant.
"""

from datetime import datetime, timedelta

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import ActiveHours
from herdbeat.domain.trigger import Calendar, Trigger
from herdbeat.scheduler.instants import Instants, passed, up_to
from herdbeat.store.base import Standing

_TICK = timedelta(microseconds=1)
_REPLACES_THE_CALENDAR = frozenset({Source.AI_INTERVAL, Source.CLAMPED_MIN, Source.CLAMPED_MAX})
"""Under these the calendar's own instants are not due, so none of them can have been passed over."""


def part_by_hours(
    trigger: Trigger, instants: Instants, hours: ActiveHours | None
) -> tuple[list[Instants], list[Instants]]:
    """The instants inside and those outside, each as pieces in the order of time. Without hours all are inside.

    Only a calendar's are parted: any other due time was moved to an opening when it was decided.
    """
    if hours is None or not isinstance(trigger, Calendar):
        return [instants], []
    inside: list[Instants] = []
    outside: list[Instants] = []
    rest: Instants | None = instants
    while rest is not None:
        is_inside = hours.contains(rest.first)
        edge = hours.next_closing(rest.first) if is_inside else hours.next_opening(rest.first)
        piece, rest = up_to(trigger, rest, max(edge - _TICK, rest.first))
        assert piece is not None
        (inside if is_inside else outside).append(piece)
    return inside, outside


def accounted_until(standing: Standing, now: datetime) -> datetime:
    """Up to where a look at `now` accounts for the instants: a jittered clock is late by its jitter."""
    run_at, due_at = standing.next_run_at, standing.next_due_at
    if standing.plan.policies.jitter is None or run_at is None or due_at is None or due_at > now:
        return now
    return max(standing.settled_until, now - (run_at - due_at))


def passed_over(standing: Standing, now: datetime) -> Instants | None:
    """The calendar's instants between the mark and the next due one: all of them lay outside the hours."""
    trigger, policies = standing.plan.trigger, standing.plan.policies
    if not isinstance(trigger, Calendar) or standing.next_source in _REPLACES_THE_CALENDAR:
        return None
    since, starts_at = standing.settled_until, policies.bounds.starts_at
    if starts_at is not None:
        since = max(since, starts_at - _TICK)  # before its start nothing is due
    until = now if standing.next_due_at is None else min(now, standing.next_due_at - _TICK)
    if policies.bounds.ends_at is not None:
        until = min(until, policies.bounds.ends_at)
    first = trigger.next_time(None, since)
    return passed(trigger, first, until) if first is not None and first <= until else None
