"""The prompt variables that the beats of every trigger kind have."""

from datetime import datetime
from functools import lru_cache

from herdbeat.domain.trigger import Trigger
from herdbeat.timestamps import format_timestamp

# Never change it: another namespace would give every schedule a new workflow id.
_SCHEDULE_NAMESPACE = "6f0a1f8e-3b0d-5a55-9c39-5d3a4f7c7a10"


def beat_variables(trigger: Trigger, due_at: datetime, schedule: str, title: str, **extra: str) -> dict[str, str]:
    """Return the variables of one beat. Those of a work item are present and empty, so one prompt serves both cases."""
    return {
        "fire_time": format_timestamp(due_at),
        "source_id": trigger.dedup_id(due_at, schedule),
        "title": title,
        **dict.fromkeys(("body", "url", "labels", "assignee"), ""),
        "workflow_id": workflow_id(schedule),
        **extra,
    }


@lru_cache(maxsize=10_000)
def workflow_id(schedule: str) -> str:
    """Return a UUID that is the same for a schedule's id on every machine."""
    from uuid import UUID, uuid5  # noqa: PLC0415 - few commands need it

    return str(uuid5(UUID(_SCHEDULE_NAMESPACE), schedule))
