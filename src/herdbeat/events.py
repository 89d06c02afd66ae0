"""What happened, as values. Transitions are published once; the log, the screen and the pages listen.

`name` is the word for the event in `up --json` and in the log. It is public: it stays when the class gets another name.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from herdbeat.domain.beat import BeatOutcome, Gap
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.run import RunStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunStarted:
    name: ClassVar[str] = "run_started"
    at: datetime
    schedule: str
    run_id: int
    source: Source
    due_at: datetime
    attempt: int


@dataclass(frozen=True, slots=True)
class RunFinished:
    name: ClassVar[str] = "run_finished"
    at: datetime
    schedule: str
    run_id: int
    status: RunStatus
    error: str
    started_at: datetime | None
    next_run_at: datetime | None


@dataclass(frozen=True, slots=True)
class BeatSettled:
    """Instants that did not run, or wait: skipped, missed, merged, pending.

    `held_by` is the run that has the place they did not get, if it is known.
    """

    name: ClassVar[str] = "beat_settled"
    at: datetime
    schedule: str
    outcome: BeatOutcome
    reason: str
    due_at: datetime
    last_due_at: datetime
    count: int
    held_by: int | None = None
    held_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class GapDetected:
    """The machine slept, its clock was moved, or nobody was there."""

    name: ClassVar[str] = "time_lost"
    at: datetime
    gap: Gap


@dataclass(frozen=True, slots=True)
class NodeReady:
    name: ClassVar[str] = "node_ready"
    at: datetime
    node_id: int
    interrupted: int


@dataclass(frozen=True, slots=True)
class ScheduleQuarantined:
    """A schedule that cannot be decided any more. It rests until it is edited; the others do not notice."""

    name: ClassVar[str] = "schedule_quarantined"
    at: datetime
    schedule: str
    reason: str


@dataclass(frozen=True, slots=True)
class InconsistencyRepaired:
    """The invariant scan has found something that cannot be, and put it right."""

    name: ClassVar[str] = "ledger_mended"
    at: datetime
    subject: str
    what: str


@dataclass(frozen=True, slots=True)
class ConfigApplied:
    """The files have changed, and the fleet with them. `unheeded` are settings that count from the next start."""

    name: ClassVar[str] = "files_applied"
    at: datetime
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unheeded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigRejected:
    """The files have changed, and have mistakes: the fleet goes on as it was."""

    name: ClassVar[str] = "files_refused"
    at: datetime
    where: str
    reason: str
    problems: int


@dataclass(frozen=True, slots=True)
class SchedulesChanged:
    """Somebody has paused, hinted, switched or reset schedules; `what` is the word of the record of changes."""

    name: ClassVar[str] = "schedules_changed"
    at: datetime
    what: ChangeKind
    who: str
    reason: str
    schedules: tuple[str, ...]


Event = (
    RunStarted
    | RunFinished
    | BeatSettled
    | GapDetected
    | NodeReady
    | ScheduleQuarantined
    | InconsistencyRepaired
    | ConfigApplied
    | ConfigRejected
    | SchedulesChanged
)
EventListener = Callable[[Event], None]


def null_listener(event: Event) -> None:
    """The listener where nobody listens."""


def safe_listener(listener: EventListener) -> EventListener:
    """The same listener, unable to do harm: a screen that is gone must not stop a fleet."""
    if listener is null_listener:
        return null_listener

    def deliver(event: Event) -> None:
        try:
            listener(event)
        except Exception:
            log.exception("a listener failed event=%s", event.name)

    return deliver
