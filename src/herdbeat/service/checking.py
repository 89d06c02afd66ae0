"""Would it start now? The documented check of one schedule, answered from how it stands."""

from datetime import datetime

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.records import ScheduleRecord


def blocking_reason(record: ScheduleRecord, now: datetime) -> SkipReason | None:
    """The first reason why not, in the documented order; None if it would. An answer, never a row."""
    if record.plan.trigger.kind.waits_for_event:
        return SkipReason.UNSUPPORTED_TYPE
    if not record.enabled or record.disabled_by is not None:
        return SkipReason.DISABLED
    if record.quarantine is not None:
        return SkipReason.CONFIG_ERROR
    if record.paused and (record.paused_until is None or record.paused_until > now):
        return SkipReason.PAUSED
    if record.running:
        return SkipReason.ALREADY_RUNNING
    if record.target_running >= record.target_room:
        return SkipReason.AT_CAPACITY
    is_due = record.waiting > 0 or (record.next_run_at is not None and record.next_run_at <= now)
    return None if is_due else SkipReason.NOT_DUE
