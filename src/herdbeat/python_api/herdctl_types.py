"""The types that the documented scheduler module names, as Python values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypedDict

from herdbeat.bootstrap.embedding import Timer
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.domain.trigger import TriggerKind
from herdbeat.domain.work_item import WorkItem

DurationLike = float | timedelta | str
"""A number of seconds, a timedelta, or a text such as "30s"."""

AgentsInput = Fleet | str | Path | list[Any] | tuple[Any, ...]
"""A fleet, the path of its file, or a list: mappings in the shape of an agent's file, Target and Schedule values."""

ScheduleSkipReason = SkipReason


class SchedulerStatus(StrEnum):
    """The overall state of a scheduler."""

    STOPPED = "stopped"
    RUNNING = "running"
    STOPPING = "stopping"


class ScheduleStanding(StrEnum):
    """The state of one schedule: one of three documented values."""

    IDLE = "idle"
    RUNNING = "running"
    DISABLED = "disabled"


class SchedulerLogger(Protocol):
    """An object with methods for four log levels, such as any logging.Logger."""

    def debug(self, message: str, /) -> object: ...

    def info(self, message: str, /) -> object: ...

    def warning(self, message: str, /) -> object: ...

    def error(self, message: str, /) -> object: ...


ScheduleRunnerLogger = SchedulerLogger


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedScheduleState:
    """The stored state of one schedule. An unknown schedule is idle and has never run."""

    status: ScheduleStanding = ScheduleStanding.IDLE
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """The state of one schedule, with its name: an entry of a scheduler's `state`."""

    agent: str
    schedule: str
    status: ScheduleStanding = ScheduleStanding.IDLE
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """The state of a scheduler: its start time, the number of checks and runs, and all schedules."""

    status: SchedulerStatus
    started_at: datetime | None = None
    check_count: int = 0
    trigger_count: int = 0
    last_check_at: datetime | None = None
    active_jobs: int = 0
    schedules: tuple[ScheduleStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentScheduleInfo:
    """A schedule and the agent it belongs to."""

    agent: Target
    schedule_name: str
    schedule: Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMetadata:
    """Why a run happens: the kind of trigger, the schedule, and the work item."""

    trigger_type: TriggerKind
    schedule: str
    work_item_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerInfo(AgentScheduleInfo):
    """The argument of `on_trigger`. The variables in `prompt` are already filled in."""

    job_id: str
    prompt: str
    due_at: datetime
    attempt: int
    metadata: TriggerMetadata


class SchedulerTriggerCallback(Protocol):
    """Performs a run. Can be `async`. Its return value is stored as the response; an exception is a failure."""

    def __call__(self, info: TriggerInfo, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerResult:
    """The result of a manual trigger. `skipped` means that no run was started; `skip_reason` says why."""

    success: bool
    job_id: str | None = None
    error: str | None = None
    skipped: bool = False
    skip_reason: SkipReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCheckResult:
    """Whether a schedule would start now; if not, the first reason that prevents it."""

    should_trigger: bool
    skip_reason: SkipReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRunResult:
    """How one run of one schedule ended."""

    success: bool
    job_id: str | None = None
    error: str | None = None
    summary: str | None = None
    response: object = None
    session_id: str | None = None
    duration_seconds: float = 0.0
    skipped: bool = False
    skip_reason: SkipReason | None = None
    work_item: WorkItem | None = None
    usage: Mapping[str, float] = field(default_factory=dict)


class StopOptions(TypedDict, total=False):
    """The arguments of `Scheduler.stop`."""

    wait_for_jobs: bool
    timeout: DurationLike


class SchedulerOptions(TypedDict, total=False):
    """The arguments of `Scheduler`."""

    state_dir: str | Path
    check_interval: DurationLike
    on_trigger: SchedulerTriggerCallback | None
    logger: SchedulerLogger | None
    jitter_percent: float
    timer: Timer | None
    lease: DurationLike
    max_concurrent: int


class WorkSourceManager(Protocol):
    """Provides work items to `run_schedule` and receives their results."""

    async def get_next_work_item(self, agent: Target, schedule: Schedule) -> WorkItem | None:
        """Claim and return the next item; None if there is no work."""
        ...

    async def report_outcome(self, item: WorkItem, result: ScheduleRunResult) -> None: ...


class RunScheduleOptions(TypedDict, total=False):
    """The arguments of `run_schedule`."""

    agent: Target | Mapping[str, Any]
    schedule_name: str
    schedule: Schedule | Mapping[str, Any] | None
    state_dir: str | Path
    job_executor: SchedulerTriggerCallback | None
    work_source_manager: WorkSourceManager | None
    logger: ScheduleRunnerLogger | None
    timer: Timer | None
