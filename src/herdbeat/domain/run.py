"""One attempt at a beat, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
