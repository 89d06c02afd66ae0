"""What becomes of a due instant: the words, and the record."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class BeatOutcome(StrEnum):
    """Every beat ends as exactly one of the last four."""

    PENDING = "pending"
    RUNNING = "running"
    RAN = "ran"
    SKIPPED = "skipped"
    MISSED = "missed"
    MERGED = "merged"


class SkipReason(StrEnum):
    """Why a due beat did not run although a node was there. The first six are the documented words."""

    UNSUPPORTED_TYPE = "unsupported_type"
    DISABLED = "disabled"
    ALREADY_RUNNING = "already_running"
    AT_CAPACITY = "at_capacity"
    NOT_DUE = "not_due"
    NO_WORK = "no_work"
    PAUSED = "paused"
    BUDGET_EXCEEDED = "budget_exceeded"
    FILTERED = "filtered"
    PRECHECK = "precheck"
    INACTIVE_HOURS = "inactive_hours"
    WORK_SOURCE_ERROR = "work_source_error"
    CONFIG_ERROR = "config_error"
    EXPIRED = "expired"
    TARGET_OFFLINE = "target_offline"
    BY_REQUEST = "by_request"


class MissedReason(StrEnum):
    """Why nobody was there when it was due, or why it came too late to be worth running."""

    SCHEDULER_DOWN = "scheduler_down"
    SLEPT = "slept"
    CLOCK_JUMPED = "clock_jumped"
    TOO_LATE = "too_late"
    RESTORED = "restored"


# Time in which nobody could run anything: what makes a beat missed instead of late.


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """From the last sign of life to the next one, and what it was."""

    from_at: datetime
    until: datetime
    reason: MissedReason

    def covers(self, instant: datetime) -> bool:
        return self.from_at < instant <= self.until
