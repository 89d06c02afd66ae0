"""Health of the scheduler: whether a node runs the fleet, and whether its loop claims what is due."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.store.reader import Reader

MAX_OVERDUE = timedelta(minutes=1)
"""How long something may be due before its loop counts as stuck. A healthy loop needs milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerHealth:
    ok: bool
    reason: str = ""


def read_health(reader: Reader, now: datetime, *, is_running: bool) -> SchedulerHealth:
    """`is_running` says whether a node answers. One that answers and leaves due schedules alone is not healthy."""
    if not is_running:
        return SchedulerHealth(ok=False, reason="not_running")
    overdue_since = reader.overdue_since(now)
    # While runs are active the node may just be full: then its loop leaves due schedules alone on purpose.
    is_overdue = overdue_since is not None and now - overdue_since > MAX_OVERDUE
    if is_overdue and not reader.open_runs(1):
        return SchedulerHealth(ok=False, reason="stuck")
    return SchedulerHealth(ok=True)
