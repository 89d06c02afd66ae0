"""The status of a run. A module of its own: commands that only list and explain load nothing else of a run."""

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
        """True for the statuses that count as failures. A run that is interrupted or cancelled did not fail."""
        return self in (RunStatus.FAILED, RunStatus.TIMED_OUT)
