"""Admission: the gates a due beat passes before it starts, in this order.

The governor checks two of them (what is disabled or paused has no next run) and the executor two (precheck, work). The
others are checked here, at the moment a beat would start.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Policies
from herdbeat.domain.trigger import CalendarTrigger
from herdbeat.scheduler.capacity import CapacitySnapshot

if TYPE_CHECKING:
    from herdbeat.store.base import ScheduleSnapshot

LABEL_RECHECK_INTERVAL = timedelta(minutes=1)
"""How often a beat of an event that waits for a node with its label is checked."""

_TICK = timedelta(microseconds=1)
USER_INITIATED = frozenset({Source.MANUAL, Source.BACKFILL, Source.RETRY})
"""Beats that a person asked for: active hours and bounds apply only to what comes by itself."""


class AdmissionGate(StrEnum):
    """In the order in which they are checked. The first that is closed gives the reason."""

    ENABLED = "enabled"
    NOT_PAUSED = "not_paused"
    BOUNDS = "bounds"
    NOT_RUNNING = "not_running"
    ACTIVE_HOURS = "active_hours"
    BUDGET = "budget"
    ACCOUNT = "account"
    LABEL = "label"
    CAPACITY = "capacity"
    PRECHECK = "precheck"
    WORK = "work"


class Rejection(NamedTuple):
    """Why a beat may not start, and until when it waits. Without `until` it is skipped."""

    reason: SkipReason
    until: datetime | None = None

    def recheck_at(self, now: datetime, expires_at: datetime | None) -> datetime | None:
        """Return when to look at the waiting beat again: at the opening, or when it expires before that.

        An expiry that has passed already has let it through: waiting for it again would never end.
        """
        if self.until is None or expires_at is None or expires_at <= now:
            return self.until
        return min(self.until, expires_at)


class AdmissionRequest(NamedTuple):
    """A beat that is to start. It `is_unblocked` if no other of its schedule is in its way; else `overlap` decides, and
    no later gate is checked."""

    now: datetime
    due_at: datetime
    run_at: datetime
    source: Source
    snapshot: "ScheduleSnapshot"
    started_count: int
    is_unblocked: bool
    capacity: CapacitySnapshot

    @property
    def is_late(self) -> bool:
        """True if it is later than `grace`. Until then a beat may start although a gate has closed meanwhile."""
        return self.now - self.run_at > self.snapshot.plan.policies.grace


def find_rejection(request: AdmissionRequest) -> Rejection | None:
    """Return the rejection of the first closed gate; None if it may start as soon as there is capacity."""
    for gate in AdmissionGate:
        if gate is AdmissionGate.NOT_RUNNING and not request.is_unblocked:
            return None
        check = _GATE_CHECKS.get(gate)
        rejection = check(request) if check is not None else None
        if rejection is not None:
            return rejection
    return None


def expires_at(policies: Policies, due_at: datetime) -> datetime | None:
    """Return when a pending clock beat expires: past `max_late`, or past the end of its schedule; None if never."""
    ends = [policies.bounds.ends_at, None if policies.max_late is None else due_at + policies.max_late]
    first = min((end for end in ends if end is not None), default=None)
    return None if first is None else first + _TICK


def has_required_label(snapshot: "ScheduleSnapshot", labels: frozenset[str]) -> bool:
    required_label = snapshot.plan.policies.runs_on
    return required_label is None or required_label in labels


def _check_bounds(request: AdmissionRequest) -> Rejection | None:
    """Rejects what is past the end of its schedule, or beyond `max_runs` with the active ones.

    What was due before the end may start a little after it. An event is due when it comes.
    """
    snapshot, bounds = request.snapshot, request.snapshot.plan.policies.bounds
    if request.source in USER_INITIATED:
        return None
    ends_at = bounds.ends_at
    if ends_at is not None and (request.due_at > ends_at or (request.now > ends_at and request.is_late)):
        return Rejection(SkipReason.EXPIRED)
    if bounds.max_runs is not None and snapshot.runs + snapshot.running + request.started_count >= bounds.max_runs:
        return Rejection(SkipReason.EXPIRED)
    return None


def _check_active_hours(request: AdmissionRequest) -> Rejection | None:
    """Skips an instant of a calendar, which has a next one. Any other beat waits for the opening."""
    hours = request.snapshot.plan.policies.active_hours
    if hours is None or request.source in USER_INITIATED or hours.contains(request.now):
        return None
    if not request.is_late and hours.contains(request.due_at):
        return None
    if isinstance(request.snapshot.plan.trigger, CalendarTrigger) or not request.source.is_clock:
        return Rejection(SkipReason.INACTIVE_HOURS)
    return Rejection(SkipReason.INACTIVE_HOURS, hours.next_opening(request.now))


def _check_budget(request: AdmissionRequest) -> Rejection | None:
    """A run by hand exceeds the budget on purpose. It is counted all the same."""
    budgets = request.capacity.budgets_by_schedule.get(request.snapshot.id)
    if budgets is None or request.source is Source.MANUAL or not budgets.is_exhausted:
        return None
    return Rejection(SkipReason.BUDGET_EXCEEDED)


def _check_account(request: AdmissionRequest) -> Rejection | None:
    """Whatever asks for it, a beat waits until the usage limit of its account has ended."""
    hold = request.capacity.holds_by_schedule.get(request.snapshot.id)
    return None if hold is None else Rejection(SkipReason.RATE_LIMITED, hold.until)


def _check_label(request: AdmissionRequest) -> Rejection | None:
    """Skips an instant that this node may not run. The beat of an event waits: it would not come again."""
    if has_required_label(request.snapshot, request.capacity.labels):
        return None
    if request.source.is_clock:
        return Rejection(SkipReason.TARGET_OFFLINE)
    return Rejection(SkipReason.TARGET_OFFLINE, request.now + LABEL_RECHECK_INTERVAL)


_GATE_CHECKS: Mapping[AdmissionGate, Callable[[AdmissionRequest], Rejection | None]] = {
    AdmissionGate.BOUNDS: _check_bounds,
    AdmissionGate.ACTIVE_HOURS: _check_active_hours,
    AdmissionGate.BUDGET: _check_budget,
    AdmissionGate.ACCOUNT: _check_account,
    AdmissionGate.LABEL: _check_label,
}
