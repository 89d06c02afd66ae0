"""The states a person sees: one word for how a schedule stands."""

from datetime import datetime
from enum import StrEnum

from herdbeat.domain.records import ScheduleRecord


class State(StrEnum):
    RUNNING = "running"
    OK = "ok"
    LATE = "late"  # due for longer than late_after, and not started
    FAILING = "failing"
    PAUSED = "paused"
    DISABLED = "disabled"
    WAITING = "waiting"  # only an event can fire it
    NEW = "new"
    DONE = "done"  # a one-shot that has fired, or a schedule whose life is over


def state_of(record: ScheduleRecord, now: datetime) -> State:
    """The first that fits: what happens now before what is held, what is held before what went wrong."""
    if record.running:
        return State.RUNNING
    if not record.enabled or record.disabled_by is not None:
        return State.DISABLED
    if record.paused and (record.paused_until is None or record.paused_until > now):
        return State.PAUSED
    if record.waiting or is_late(record, now):
        return State.LATE
    if record.quarantine is not None or record.failures:
        return State.FAILING
    return _quiet_state(record)


def is_late(record: ScheduleRecord, now: datetime) -> bool:
    late_after = record.plan.policies.late_after
    return record.next_run_at is not None and record.next_run_at + late_after < now


def _quiet_state(record: ScheduleRecord) -> State:
    kind = record.plan.trigger.kind
    if record.next_run_at is None:
        return State.WAITING if kind.waits_for_event else State.DONE
    return State.OK if record.last_run_at is not None else State.NEW
