"""Events: every state transition is published once as a value; the log, the live screen and `up --json` listen.

The name of an event is public and stays when its class is renamed.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from herdbeat.domain.beat import BeatOutcome, Gap
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.run import RunStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _BaseEvent:
    """What every event has: when it happened, and its `name`, which is what `up --json` and the log call the event."""

    name: ClassVar[str]
    at: datetime


@dataclass(frozen=True, slots=True)
class RunStarted(_BaseEvent):
    name = "run_started"
    schedule: str
    run_id: int
    source: Source
    due_at: datetime
    attempt: int


@dataclass(frozen=True, slots=True)
class RunFinished(_BaseEvent):
    """`error_code` is why an agent failed. A beat that a usage limit sent back has a `retry_at` without an attempt."""

    name = "run_finished"
    schedule: str
    run_id: int
    status: RunStatus
    error: str
    started_at: datetime | None
    next_run_at: datetime | None
    retry_at: datetime | None = None
    retry_attempt: int | None = None
    max_attempts: int = 1
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class BeatSettled(_BaseEvent):
    """Instants that did not start a run: skipped, missed, merged, or pending for now.

    `held_by` is the run that occupies the slot they needed, if it is known.
    """

    name = "beat_settled"
    schedule: str
    outcome: BeatOutcome
    reason: str
    due_at: datetime
    last_due_at: datetime
    count: int
    held_by: int | None = None
    held_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class GapDetected(_BaseEvent):
    """No node ran for some time: the machine slept, its clock jumped, or the scheduler was down."""

    name = "time_lost"
    gap: Gap


@dataclass(frozen=True, slots=True)
class NodeReady(_BaseEvent):
    name = "node_ready"
    node_id: int
    interrupted: int


@dataclass(frozen=True, slots=True)
class ScheduleQuarantined(_BaseEvent):
    """Deciding this schedule raised an error. It does not run until it is edited; other schedules are not affected."""

    name = "schedule_quarantined"
    schedule: str
    reason: str


@dataclass(frozen=True, slots=True)
class InconsistencyRepaired(_BaseEvent):
    """The consistency check found a violated invariant in the ledger and repaired it."""

    name = "ledger_mended"
    subject: str
    what: str


@dataclass(frozen=True, slots=True)
class ConfigApplied(_BaseEvent):
    """Changed configuration files were applied. The settings in `unheeded` take effect at the next start.

    Schedules are in `added`, `changed` and `removed`; `targets` are targets of which something else changed, such as
    their program, and shared budgets.
    """

    name = "files_applied"
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unheeded: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigRejected(_BaseEvent):
    """Changed configuration files are invalid: the fleet keeps its last valid configuration."""

    name = "files_refused"
    where: str
    reason: str
    problems: int


@dataclass(frozen=True, slots=True)
class SchedulesChanged(_BaseEvent):
    """A command paused, hinted, enabled, disabled or reset schedules; `what` is the kind in the change log."""

    name = "schedules_changed"
    what: ChangeKind
    who: str
    reason: str
    schedules: tuple[str, ...]


class RuleEffectKind(StrEnum):
    """What a rule has done, in the words of the keys under `adapt`."""

    EVERY = "every"
    RUN_IN = "run_in"
    PAUSE = "pause"
    TRIGGER = "trigger"
    END = "end"  # hints of rules have ended before their time


@dataclass(frozen=True, slots=True)
class RuleFired(_BaseEvent):
    """A rule has changed a schedule after a run. One that only renews its hint is silent.

    `until` is the end of the pace or of the pause, or the time of one more run. `triggers` is the schedule that a rule
    has started.
    """

    name = "rule_fired"
    schedule: str
    rule: str
    action: RuleEffectKind
    reason: str
    every: timedelta | None = None
    until: datetime | None = None
    triggers: str = ""


@dataclass(frozen=True, slots=True)
class AccountHeld(_BaseEvent):
    """A run was refused by a usage limit: beats that use its account wait until it opens. `model` is empty for all."""

    name = "account_held"
    account: str
    model: str
    until: datetime
    run_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class AccountReleased(_BaseEvent):
    """An account can be used again. `who` is the person who released it; empty if its limit has ended."""

    name = "account_released"
    account: str
    model: str
    who: str


@dataclass(frozen=True, slots=True)
class ServerReady(_BaseEvent):
    """The server answers at this address: at the start, and after each restart."""

    name = "server_ready"
    url: str


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
    | RuleFired
    | AccountHeld
    | AccountReleased
    | ServerReady
)
EventListener = Callable[[Event], None]


def null_listener(event: Event) -> None:
    """Ignore the event."""


def combine_listeners(*listeners: EventListener) -> EventListener:
    """Return a listener that hands every event to all of these, in this order."""

    def deliver_to_all(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return deliver_to_all


class SafeListener:
    """A listener that logs what another one raises, and never raises itself."""

    __slots__ = ("_listener",)

    def __init__(self, listener: EventListener) -> None:
        self._listener = listener

    def __call__(self, event: Event) -> None:
        try:
            self._listener(event)
        # Broad, because a listener is any code: a terminal that has gone away (OSError, ValueError of a closed file),
        # or a callback of the user. The scheduler publishes after its commit; an error here must not stop the loop.
        except Exception:
            log.exception("event listener failed event=%s", event.name)


def safe_listener(listener: EventListener) -> EventListener:
    """Return a listener that never raises. One that is safe already is not wrapped again: every event passes it."""
    if listener is null_listener or isinstance(listener, SafeListener):
        return listener
    return SafeListener(listener)
