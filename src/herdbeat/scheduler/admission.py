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
from herdbeat.domain.trigger import CalendarTrigger
from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.store.base import ScheduleSnapshot

LABEL_RECHECK_INTERVAL = timedelta(minutes=1)
"""How often an event that waits for a node with its label is looked at."""

_TICK = timedelta(microseconds=1)
USER_INITIATED = frozenset({Source.MANUAL, Source.BACKFILL, Source.RETRY})
"""A person has asked for it: hours and bounds are for what comes by itself."""


class AdmissionGate(StrEnum):
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


class Rejection(NamedTuple):
    """Which reason keeps a beat out, and until when it waits. Without `until` it is skipped."""

    reason: SkipReason
    until: datetime | None = None


class AdmissionRequest(NamedTuple):
    """A beat that wants to start. `is_free` says that no other of its schedule is in its way; if one is, `overlap`
    decides, and no gate behind that is asked."""

    now: datetime
    due_at: datetime
    run_at: datetime
    source: Source
    snapshot: ScheduleSnapshot
    started_count: int
    is_unblocked: bool
    capacity: CapacitySnapshot

    @property
    def is_late(self) -> bool:
        """Later than `grace`: up to there, what came due in time may still start, whatever has closed meanwhile."""
        return self.now - self.run_at > self.snapshot.plan.policies.grace


def find_rejection(request: AdmissionRequest) -> Rejection | None:
    """The first gate that keeps it out; None if it may start as soon as there is room."""
    for gate in AdmissionGate:
        if gate is AdmissionGate.NOT_RUNNING and not request.is_unblocked:
            return None
        check = _GATE_CHECKS.get(gate)
        rejection = check(request) if check is not None else None
        if rejection is not None:
            return rejection
    return None


def expires_at(policies: Policies, due_at: datetime) -> datetime | None:
    """The first moment at which a waiting beat of the clock is over: past `max_late`, or past its schedule's end."""
    ends = [policies.bounds.ends_at, None if policies.max_late is None else due_at + policies.max_late]
    first = min((end for end in ends if end is not None), default=None)
    return None if first is None else first + _TICK


def has_required_label(snapshot: ScheduleSnapshot, labels: frozenset[str]) -> bool:
    required_label = snapshot.plan.policies.runs_on
    return required_label is None or required_label in labels


def _check_bounds(request: AdmissionRequest) -> Rejection | None:
    """Past its end, or with all its runs had or under way."""
    snapshot, bounds = request.snapshot, request.snapshot.plan.policies.bounds
    if request.source in USER_INITIATED:
        return None
    if bounds.ends_at is not None and request.now > bounds.ends_at and request.is_late:
        return Rejection(SkipReason.EXPIRED)
    if bounds.max_runs is not None and snapshot.runs + snapshot.running + request.started_count >= bounds.max_runs:
        return Rejection(SkipReason.EXPIRED)
    return None


def _check_active_hours(request: AdmissionRequest) -> Rejection | None:
    """An instant of a calendar is let go: the next one is its own. Any other time waits for the opening."""
    hours = request.snapshot.plan.policies.active_hours
    if hours is None or request.source in USER_INITIATED or hours.contains(request.now):
        return None
    if not request.is_late and hours.contains(request.due_at):
        return None
    if isinstance(request.snapshot.plan.trigger, CalendarTrigger) or not request.source.is_clock:
        return Rejection(SkipReason.INACTIVE_HOURS)
    return Rejection(SkipReason.INACTIVE_HOURS, hours.next_opening(request.now))


def _check_budget(request: AdmissionRequest) -> Rejection | None:
    """Not asked of a person: who runs it by hand knows why. It is counted all the same."""
    budgets = request.capacity.budgets_by_schedule.get(request.snapshot.id)
    if budgets is None or request.source is Source.MANUAL or not budgets.is_exhausted:
        return None
    return Rejection(SkipReason.BUDGET_EXCEEDED)


def _check_label(request: AdmissionRequest) -> Rejection | None:
    """An instant that no node may run is over. What an event has brought waits: it would not come again."""
    if has_required_label(request.snapshot, request.capacity.labels):
        return None
    if request.source.is_clock:
        return Rejection(SkipReason.TARGET_OFFLINE)
    return Rejection(SkipReason.TARGET_OFFLINE, request.now + LABEL_RECHECK_INTERVAL)


_GATE_CHECKS: Mapping[AdmissionGate, Callable[[AdmissionRequest], Rejection | None]] = {
    AdmissionGate.BOUNDS: _check_bounds,
    AdmissionGate.ACTIVE_HOURS: _check_active_hours,
    AdmissionGate.BUDGET: _check_budget,
    AdmissionGate.LABEL: _check_label,
}
