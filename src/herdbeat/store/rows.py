"""Rows of the ledger as values: the arguments and results of a transaction."""

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

from herdbeat.domain.agent_run import AgentReport, RunSpend, SessionTotals
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.policies import Policies
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.governor.state import Pause, find_pause

if TYPE_CHECKING:
    from herdbeat.domain.outbox import NewDelivery
    from herdbeat.domain.rule_state import RuleState, RuleStep, RuleTruth


class ScheduleSnapshot(NamedTuple):
    """One schedule: its plan, the last decision, and what the next decision needs.

    `quarantine` is why it is not evaluated any more, until it is edited. `unreadable` is why its plan could not be
    read; `plan` is then a placeholder. One that `is_removed` is not enabled either: only its active runs are left.
    """

    id: int
    target_id: int
    label: str
    plan: ScheduleSpec
    revision: int
    enabled: bool
    next_run_at: datetime | None
    next_due_at: datetime | None
    next_source: Source | None
    next_origin: str
    wake_at: datetime | None
    anchor_at: datetime
    settled_until: datetime
    is_new: bool
    failures: int
    runs: int
    running: int
    waiting: int
    arm: int = 1
    pause: Pause | None = None
    tail_id: int | None = None
    tail: str | None = None
    hints: tuple[Hint, ...] = ()
    quarantine: str | None = None
    unreadable: str | None = None
    disabled_by: str | None = None
    skips: int = 0
    not_before: datetime | None = None
    windows: tuple[PauseWindow, ...] = ()
    is_removed: bool = False
    recorded: tuple[tuple[datetime, datetime], ...] = ()
    """Instants after `settled_until` that have a beat already, because the clock was set back: first and last of each
    row. Loaded only by `scheduler/claim.py`."""

    def pause_at(self, at: datetime) -> Pause | None:
        """Return the pause or planned pause that holds it at a moment."""
        return find_pause(at, self.pause, self.windows)


class PausableSchedule(NamedTuple):
    """A schedule as the selection of a planned pause sees it."""

    id: int
    target: str
    name: str
    policies: Policies


class PendingBeat(NamedTuple):
    """A pending beat. `retried_by` is the person who retried it by hand, else None.

    `limited` counts how often a usage limit has sent it back to wait. Such a run is no attempt of the retry policy.
    """

    id: int
    schedule_id: int
    target_id: int
    dedup_id: str
    due_at: datetime
    reason: str
    source: Source
    origin: str
    attempt: int
    retried_by: str | None = None
    limited: int = 0

    @property
    def has_run(self) -> bool:
        """True if a run of it has ended already: then it is `ran`, whatever happens to it now."""
        return self.attempt > 1 or self.limited > 0


class NewBeat(NamedTuple):
    """A beat to add, or a range of instants with one outcome."""

    schedule_id: int
    target_id: int
    dedup_id: str
    due_at: datetime
    last_due_at: datetime
    number: int
    outcome: BeatOutcome
    reason: str
    source: Source
    origin: str = ""
    payload: str | None = None
    priority: int = 0
    wake_at: datetime | None = None
    created_at: datetime | None = None
    settled_at: datetime | None = None


class BeatExtension(NamedTuple):
    """More instants for an existing row of skips or misses."""

    id: int
    more: int
    last_due_at: datetime


class RangeRow(NamedTuple):
    """A row of instants that did not run: its first instant, and how many there are."""

    id: int
    schedule_id: int
    due_at: datetime
    number: int


class StartedInterval(NamedTuple):
    """An interval whose only beat starts at once, as the claim has read it."""

    snapshot: ScheduleSnapshot
    due_at: datetime


class ChangedBeat(NamedTuple):
    """A beat that changes: started, waiting again, or settled."""

    id: int
    outcome: BeatOutcome
    reason: str
    wake_at: datetime | None
    attempt: int
    settled: bool


class LastAttempt(NamedTuple):
    """The newest run of a beat, and the outcome of that beat."""

    run_id: int
    beat_id: int
    schedule_id: int
    attempt: int
    status: RunStatus
    outcome: BeatOutcome


class NewRun(NamedTuple):
    """A run to add. `target_id`, `source` and `limited` are those of its beat.

    With its source, a store may remember the run until it is completed, and not read it again.
    """

    beat_id: int
    schedule_id: int
    attempt: int
    target_id: int = 0
    source: Source | None = None
    limited: int = 0


class FinishedRun(NamedTuple):
    """A run that has ended, as its node reports it. `output` is what it printed, for other nodes to show.

    `truths` are the conditions of the rules of its schedule, in their order. `deliveries` are what its hooks have to
    send or to start.
    """

    run_id: int
    started_at: datetime | None
    outcome: Outcome
    log: str | None = None
    output: str | None = None
    truths: "tuple[RuleTruth, ...]" = ()
    deliveries: "tuple[NewDelivery, ...]" = ()


class RuleEntry(NamedTuple):
    """What to remember of one rule of a schedule, and its outcome after a run."""

    schedule_id: int
    run_id: int
    state: "RuleState"
    step: "RuleStep"


class OpenRun(NamedTuple):
    """An open run, with what its completion needs. `limited` is that of its beat: `attempt` counts those runs, too.

    It `has_work` if it has asked a work source for an item.
    """

    id: int
    beat_id: int
    schedule_id: int
    attempt: int
    target_id: int
    source: Source
    has_reservation: bool
    limited: int = 0
    has_work: bool = False

    @property
    def tried(self) -> int:
        """Its attempt as the retry policy counts: without the runs that a usage limit has refused."""
        return self.attempt - self.limited


class BeatRun(NamedTuple):
    """One of the runs of a beat that starts a run for each of its work items.

    `error_code` is what its agent said, and `tool_called` whether that has called a tool.
    """

    beat_id: int
    run_id: int
    status: RunStatus
    error: str
    attempt: int
    error_code: str = ""
    tool_called: bool = False


class ChangedSchedule(NamedTuple):
    """All columns of a schedule that an evaluation or a completion may change.

    None in `next_trace` and in the `last_…` fields keeps the stored value.
    """

    id: int
    next_run_at: datetime | None
    next_due_at: datetime | None
    next_source: Source | None
    next_origin: str
    next_trace: str | None
    wake_at: datetime | None
    anchor_at: datetime
    settled_until: datetime
    is_new: bool
    failures: int
    runs: int
    running: int
    waiting: int
    tail_id: int | None
    tail: str | None
    last_started_at: datetime | None = None
    last_run_at: datetime | None = None
    last_status: str | None = None
    last_error: str | None = None
    quarantine: str | None = None


class CounterDelta(NamedTuple):
    """What to add to the counters of a schedule whose beats changed while its next run did not."""

    id: int
    running: int = 0
    waiting: int = 0


class TargetRow(NamedTuple):
    """A target as it is stored. `spec` and `hooks` are JSON; without hooks it is empty."""

    name: str
    kind: str
    spec: str
    origin: str
    max_concurrent: int
    hooks: str = ""


class ScheduleRow(NamedTuple):
    """A schedule as it is stored, without its next run."""

    target_id: int
    name: str
    kind: str
    plan_id: int
    brief: str
    origin: str
    enabled: bool


class NextRunColumns(NamedTuple):
    """The current decision of a schedule, as its columns. An edit without a trace keeps the stored one."""

    next_run_at: datetime | None
    next_due_at: datetime | None
    next_source: Source
    next_origin: str
    next_trace: str | None
    wake_at: datetime | None


class EnabledInFile(NamedTuple):
    """Whether the file enables a schedule, whatever was disabled by hand, and where the file defines it."""

    label: str
    enabled: bool
    origin: str


class TargetCapacity(NamedTuple):
    target_id: int
    max_concurrent: int
    running: int
    has_waiting: bool = False


class CatchupCursor(NamedTuple):
    """Which slots are taken: when the last that waits for one may start, and from when on one is free."""

    last_start_at: datetime | None = None
    free_at: datetime | None = None


class Neighbour(NamedTuple):
    """Another live node of the same machine: its process can be watched."""

    node_id: int
    pid: int
    start: int


class StopRequest(NamedTuple):
    """A request of another node to stop a run; `why` becomes the note of the run."""

    run_id: int
    why: str
    force: bool


class CounterCheck(NamedTuple):
    """The counters of a schedule, counted from its open runs and pending beats.

    `waiting` are its pending clock beats, `open` all of them with their retries.
    """

    id: int
    running: int
    waiting: int
    open: int


class TargetCounterCheck(NamedTuple):
    """The same for a target: `counted` is the stored counter, `running` the number of its open runs."""

    id: int
    name: str
    counted: int
    running: int
    max_concurrent: int


class InconsistencyCandidates(NamedTuple):
    """Ids of rows that may be inconsistent. `last` is the id after which the next page of schedules begins."""

    schedules: list[int]
    targets: list[int]
    stalled_targets: list[int]
    beats: list[int]
    last: int | None = None


class DeletedBeats(NamedTuple):
    """What was deleted: how many beats, and the runs (id, claimed at, ended at) whose logs are to be deleted."""

    beats: int
    runs: list[tuple[int, datetime, datetime]]


class RareGates(NamedTuple):
    """What few fleets have and every claim has to ask for, all at once."""

    has_budgets: bool
    has_holds: bool


class Gate(StrEnum):
    """What programs do not know that are older and share a ledger during an upgrade: mostly what keeps beats back."""

    ACCOUNT_HOLD = "account hold"
    PLANNED_PAUSE = "planned pause"
    EXECUTOR = "executor"
    REFERENCE = "reference to a variable"


class OlderNode(NamedTuple):
    """A live node whose program does not know a gate."""

    id: int
    host: str
    version: str


class AgentRunRow(NamedTuple):
    """What is kept of an agent's run, beside the run itself. `branch` has the changes that it left in its workspace."""

    run_id: int
    report: AgentReport
    branch: str = ""


class RunCostRow(NamedTuple):
    """What a run was charged, on a day of its schedule's zone."""

    run_id: int
    schedule_id: int
    target_id: int
    day: str
    spend: RunSpend


class SessionKey(NamedTuple):
    runtime: str
    session_id: str


class SessionRow(NamedTuple):
    """A session after a run of a schedule has used it, with its new totals. The host is that of the run's node."""

    key: SessionKey
    schedule_id: int
    run_id: int
    totals: SessionTotals


class AttentionMark(NamedTuple):
    """A run that a person should look at, and what there is to decide."""

    run_id: int
    schedule_id: int
    what: tuple[str, ...]


class ClearingScope(IntEnum):
    """Which marks of a schedule a success clears."""

    EARLIER_RUNS = 0  # those of all runs that had ended when it started
    SAME_BEAT = 1  # those of the same event
    SAME_ITEM = 2  # those of runs for the same work item
    SAME_THREAD = 3  # those of the same conversation


class AttentionClearing(NamedTuple):
    """A success that clears marks of its schedule."""

    run_id: int
    schedule_id: int
    started_at: datetime
    scope: ClearingScope
