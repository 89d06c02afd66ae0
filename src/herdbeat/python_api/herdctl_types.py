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
    """What a scheduler is doing as a whole."""

    STOPPED = "stopped"
    RUNNING = "running"
    STOPPING = "stopping"


class ScheduleStanding(StrEnum):
    """What one schedule is doing, in the three documented words."""

    IDLE = "idle"
    RUNNING = "running"
    DISABLED = "disabled"


class SchedulerLogger(Protocol):
    """Whatever takes lines at four levels: any logging.Logger does."""

    def debug(self, message: str, /) -> object: ...

    def info(self, message: str, /) -> object: ...

    def warning(self, message: str, /) -> object: ...

    def error(self, message: str, /) -> object: ...


ScheduleRunnerLogger = SchedulerLogger


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedScheduleState:
    """What a state directory keeps of one schedule. One that is unknown is idle and has never run."""

    status: ScheduleStanding = ScheduleStanding.IDLE
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """The same, with its name: one line of a scheduler's `state`."""

    agent: str
    schedule: str
    status: ScheduleStanding = ScheduleStanding.IDLE
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """How a scheduler stands: since when, how often it has looked and started something, and every schedule."""

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
    """Why a run happens: by which kind of trigger, of which schedule, for which item of work."""

    trigger_type: TriggerKind
    schedule: str
    work_item_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerInfo(AgentScheduleInfo):
    """What `on_trigger` is told about the run it has to do. `prompt` is ready: its names are filled in."""

    job_id: str
    prompt: str
    due_at: datetime
    attempt: int
    metadata: TriggerMetadata


class SchedulerTriggerCallback(Protocol):
    """Does a run. Plain or `async`; what it returns is kept as the response, what it raises is the failure."""

    def __call__(self, info: TriggerInfo, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerResult:
    """What became of a trigger by hand. `skipped` says that nothing was started, `skip_reason` why."""

    success: bool
    job_id: str | None = None
    error: str | None = None
    skipped: bool = False
    skip_reason: SkipReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCheckResult:
    """Whether a schedule would start now; if not, the first reason that holds it."""

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
    """Where `run_schedule` gets an item of work from, and tells how it went."""

    async def get_next_work_item(self, agent: Target, schedule: Schedule) -> WorkItem | None:
        """An item that is ours from now on; None if there is nothing to do."""
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
