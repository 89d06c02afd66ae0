"""What the ledger tells about the past and the present: the values that questions are answered with."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.plan import Plan
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import label_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatRecord:
    """One due instant, or a range of them that share one fate."""

    id: int
    schedule: str
    due_at: datetime
    last_due_at: datetime
    count: int
    outcome: BeatOutcome
    reason: str
    source: Source
    origin: str
    dedup_id: str
    settled_at: datetime | None
    runs: tuple[int, ...]
    last_status: RunStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One attempt at a beat."""

    id: int
    schedule: str
    beat_id: int
    attempt: int
    status: RunStatus
    claimed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    code: int | None
    error: str | None
    summary: str | None
    log: str | None
    source: Source
    origin: str
    due_at: datetime
    dedup_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """A schedule as it stands, with everything people ask about it."""

    id: int
    target: str
    name: str
    plan: Plan
    origin: str
    enabled: bool
    disabled_by: str | None
    quarantine: str | None
    next_run_at: datetime | None
    next_due_at: datetime | None
    next_source: Source | None
    next_origin: str
    next_trace: str | None
    anchor_at: datetime
    is_new: bool
    failures: int
    running: int
    waiting: int
    paused: bool
    paused_until: datetime | None
    paused_by: str
    paused_reason: str
    last_started_at: datetime | None
    last_run_at: datetime | None
    last_status: RunStatus | None
    last_error: str | None
    target_room: int
    target_running: int

    @property
    def label(self) -> str:
        return label_of(self.target, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    id: int
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None
