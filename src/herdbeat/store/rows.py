"""The rows of the ledger as values: what goes into a transaction, and what comes out of it."""

from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.governor.state import Pause


class ScheduleSnapshot(NamedTuple):
    """One schedule as it stands: its plan, what was decided last, and what the next decision needs.

    `quarantine` says why it is not decided any more, until it is edited. `unreadable` says why its plan could not be
    read; `plan` is then an empty one that stands in.
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


class PendingBeat(NamedTuple):
    """A pending beat that somebody has to look at now. `retried_by` says who wants to see it run again, if anybody."""

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


class NewBeat(NamedTuple):
    """A beat to write down, or a range of them that share one fate."""

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
    """More instants for a row of skips or misses that is there already."""

    id: int
    more: int
    last_due_at: datetime


class ChangedBeat(NamedTuple):
    """A beat that moves on: started, waiting again, or settled."""

    id: int
    outcome: BeatOutcome
    reason: str
    wake_at: datetime | None
    attempt: int
    settled: bool


class LastAttempt(NamedTuple):
    """The newest run of a beat, and how that beat stands."""

    run_id: int
    beat_id: int
    schedule_id: int
    attempt: int
    status: RunStatus
    outcome: BeatOutcome


class NewRun(NamedTuple):
    beat_id: int
    schedule_id: int
    attempt: int


class FinishedRun(NamedTuple):
    """A run that is over, as the node that held it tells it. `output` is what it printed, for other nodes to show."""

    run_id: int
    started_at: datetime | None
    outcome: Outcome
    log: str | None = None
    output: str | None = None


class OpenRun(NamedTuple):
    """A run that is still open, with what is needed to close it."""

    id: int
    beat_id: int
    schedule_id: int
    attempt: int
    target_id: int
    source: Source
    due_at: datetime
    dedup_id: str


class ChangedSchedule(NamedTuple):
    """The whole changing part of a schedule, after a turn.

    None in `next_trace` and in the `last_…` fields leaves what was there.
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
    """A schedule whose beats moved while its clock did not: what was added to its counters."""

    id: int
    running: int = 0
    waiting: int = 0


class TargetRow(NamedTuple):
    """A target as it is stored. `spec` is JSON."""

    name: str
    kind: str
    spec: str
    origin: str
    max_concurrent: int


class ScheduleRow(NamedTuple):
    """A schedule as it is written down, apart from its time."""

    target_id: int
    name: str
    kind: str
    plan_id: int
    brief: str
    origin: str
    enabled: bool


class NextRunColumns(NamedTuple):
    """The decision that stands for a schedule, as its columns. An edit without a trace leaves the one that is there."""

    next_run_at: datetime | None
    next_due_at: datetime | None
    next_source: Source
    next_origin: str
    next_trace: str | None
    wake_at: datetime | None


class EnabledInFile(NamedTuple):
    """Whether the file lets a schedule run, whatever was switched off by hand; and where it stands in it."""

    label: str
    enabled: bool
    origin: str


class TargetCapacity(NamedTuple):
    target_id: int
    max_concurrent: int
    running: int
    has_waiting: bool = False


class CatchupCursor(NamedTuple):
    """How far the places of what is caught up are given away: when the last who waits for its own may start, and from
    when on one is free."""

    last_start_at: datetime | None = None
    free_at: datetime | None = None


class StopRequest(NamedTuple):
    """Word from elsewhere that a run is to end, with what the run will say of it."""

    run_id: int
    why: str
    force: bool


class CounterCheck(NamedTuple):
    """What the open runs and the pending beats of a schedule say, whatever its own counters do.

    `waiting` are its pending clock beats, `open` all of them with their retries.
    """

    id: int
    running: int
    waiting: int
    open: int


class TargetCounterCheck(NamedTuple):
    """The same for a target: what its row says, and what its open runs say."""

    id: int
    name: str
    counted: int
    running: int
    max_concurrent: int


class InconsistencyCandidates(NamedTuple):
    """Rows at which something may be wrong, by id. `last` is where the next page of schedules goes on."""

    schedules: list[int]
    targets: list[int]
    stalled_targets: list[int]
    beats: list[int]
    last: int | None = None


class DeletedBeats(NamedTuple):
    """What a prune has removed: how many beats and runs, and of which runs the logs are to go."""

    beats: int
    runs: list[tuple[int, datetime, datetime]]
