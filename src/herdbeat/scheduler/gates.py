"""What a due beat has to pass before it starts, as one list: the order of the gates is the order of this page.

Two of them stand in the governor (what is disabled or paused has no next run) and two are asked by the performer
(precheck, work). The others are asked here, at the moment a beat wants to start.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Policies
from herdbeat.domain.trigger import Calendar
from herdbeat.scheduler.room import Rooms
from herdbeat.store.base import Standing

LOOK_AGAIN = timedelta(minutes=1)
"""How often an event that waits for a node with its label is looked at."""

_TICK = timedelta(microseconds=1)
BY_HAND = frozenset({Source.MANUAL, Source.BACKFILL, Source.RETRY})
"""A person has asked for it: hours and bounds are for what comes by itself."""


class Gate(StrEnum):
    """In the order in which they are asked. The first that is closed gives the reason."""

    ENABLED = "enabled"
    NOT_PAUSED = "not_paused"
    BOUNDS = "bounds"
    NOT_RUNNING = "not_running"
    ACTIVE_HOURS = "active_hours"
    BUDGET = "budget"
    LABEL = "label"
    CAPACITY = "capacity"
    PRECHECK = "precheck"
    WORK = "work"


class Held(NamedTuple):
    """Which reason keeps a beat out, and until when it waits. Without `until` it is skipped."""

    reason: SkipReason
    until: datetime | None = None


class Arrival(NamedTuple):
    """A beat that wants to start. `is_free` says that no other of its schedule is in its way; if one is, `overlap`
    decides, and no gate behind that is asked."""

    now: datetime
    due_at: datetime
    run_at: datetime
    source: Source
    standing: Standing
    begun: int
    is_free: bool
    rooms: Rooms

    @property
    def is_late(self) -> bool:
        """Later than `grace`: up to there, what came due in time may still start, whatever has closed meanwhile."""
        return self.now - self.run_at > self.standing.plan.policies.grace


def held_by(arrival: Arrival) -> Held | None:
    """The first gate that keeps it out; None if it may start as soon as there is room."""
    for gate in Gate:
        if gate is Gate.NOT_RUNNING and not arrival.is_free:
            return None
        ask = _ASKED.get(gate)
        held = ask(arrival) if ask is not None else None
        if held is not None:
            return held
    return None


def over_at(policies: Policies, due_at: datetime) -> datetime | None:
    """The first moment at which a waiting beat of the clock is over: past `max_late`, or past its schedule's end."""
    ends = [policies.bounds.ends_at, None if policies.max_late is None else due_at + policies.max_late]
    first = min((end for end in ends if end is not None), default=None)
    return None if first is None else first + _TICK


def may_run_here(standing: Standing, labels: frozenset[str]) -> bool:
    wanted = standing.plan.policies.runs_on
    return wanted is None or wanted in labels


def _bounds(arrival: Arrival) -> Held | None:
    """Past its end, or with all its runs had or under way."""
    standing, bounds = arrival.standing, arrival.standing.plan.policies.bounds
    if arrival.source in BY_HAND:
        return None
    if bounds.ends_at is not None and arrival.now > bounds.ends_at and arrival.is_late:
        return Held(SkipReason.EXPIRED)
    if bounds.max_runs is not None and standing.runs + standing.running + arrival.begun >= bounds.max_runs:
        return Held(SkipReason.EXPIRED)
    return None


def _active_hours(arrival: Arrival) -> Held | None:
    """An instant of a calendar is let go: the next one is its own. Any other time waits for the opening."""
    hours = arrival.standing.plan.policies.active_hours
    if hours is None or arrival.source in BY_HAND or hours.contains(arrival.now):
        return None
    if not arrival.is_late and hours.contains(arrival.due_at):
        return None
    if isinstance(arrival.standing.plan.trigger, Calendar) or not arrival.source.is_clock:
        return Held(SkipReason.INACTIVE_HOURS)
    return Held(SkipReason.INACTIVE_HOURS, hours.next_opening(arrival.now))


def _budget(arrival: Arrival) -> Held | None:
    """Not asked of a person: who runs it by hand knows why. It is counted all the same."""
    wallet = arrival.rooms.wallets.get(arrival.standing.id)
    if wallet is None or arrival.source is Source.MANUAL or not wallet.is_used_up:
        return None
    return Held(SkipReason.BUDGET_EXCEEDED)


def _label(arrival: Arrival) -> Held | None:
    """An instant that no node may run is over. What an event has brought waits: it would not come again."""
    if may_run_here(arrival.standing, arrival.rooms.labels):
        return None
    if arrival.source.is_clock:
        return Held(SkipReason.TARGET_OFFLINE)
    return Held(SkipReason.TARGET_OFFLINE, arrival.now + LOOK_AGAIN)


_ASKED: Mapping[Gate, Callable[[Arrival], Held | None]] = {
    Gate.BOUNDS: _bounds,
    Gate.ACTIVE_HOURS: _active_hours,
    Gate.BUDGET: _budget,
    Gate.LABEL: _label,
}
