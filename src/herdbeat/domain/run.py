"""One attempt at a beat, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from herdbeat.domain.decision import Source
from herdbeat.domain.timing import ScheduleSpec

# A node's hold on a beat: what is needed to run it, and to write down how it ended.


class Claim(NamedTuple):
    run_id: int
    beat_id: int
    schedule_id: int
    target_id: int
    label: str
    dedup_id: str
    due_at: datetime
    source: Source
    attempt: int
    revision: int
    plan: ScheduleSpec
    fence: int = 0


class RunStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"

    @property
    def is_failure(self) -> bool:
        """Only these two count against a schedule: being cut off is nobody's failure."""
        return self in (RunStatus.FAILED, RunStatus.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, as its runner tells it.

    `skip` is why one that was skipped did not start. `note` is what we have to say about it, such as a broken check.
    """

    status: RunStatus
    code: int | None = None
    error: str = ""
    output: str = ""
    response: object = None
    summary: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    session: str = ""
    skip: str = ""
    note: str = ""
