"""Beats: the outcomes of a due instant, the reasons for them, and the gaps in which no node ran."""

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
    """Why a due beat did not run although a node was running. The first six are those of herdctl."""

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
    RATE_LIMITED = "rate_limited"


class MissedReason(StrEnum):
    """Why no node was running when the beat was due, or why it was found too late to be run."""

    SCHEDULER_DOWN = "scheduler_down"
    SLEPT = "slept"
    CLOCK_JUMPED = "clock_jumped"
    TOO_LATE = "too_late"
    RESTORED = "restored"


class MergedReason(StrEnum):
    """Why a due instant has no run of its own: a beat before it runs for the first two and the last,
    a later one for the others.
    """

    ALREADY_RUNNING = "already_running"
    AT_CAPACITY = "at_capacity"
    ONCE = "once"
    CANCEL = "cancel"
    CATCHUP_MAX = "catchup_max"
    RATE_LIMITED = "rate_limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A period in which no node ran, from the last heartbeat to the next. Beats in it are missed, not late."""

    from_at: datetime
    until: datetime
    reason: MissedReason

    def covers(self, instant: datetime) -> bool:
        return self.from_at < instant <= self.until
