"""What a store promises. The scheduler sees nothing else of it.

All rules about time and capacity live above; a store keeps rows, changes them in one transaction, and hands
them out as values. Times are aware UTC datetimes on this side of the wall.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.gap import Gap
from herdbeat.domain.hint import Hint
from herdbeat.domain.plan import Plan
from herdbeat.domain.run import Outcome
from herdbeat.governor.state import Pause

T = TypeVar("T")


class Standing(NamedTuple):
    """One schedule as it stands: its plan, what was decided last, and what the next decision needs."""

    id: int
    target_id: int
    label: str
    plan: Plan
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
    arm: int
    pause: Pause | None
    tail_id: int | None
    tail: str | None
    hints: tuple[Hint, ...]


class WaitingBeat(NamedTuple):
    """A pending beat that somebody has to look at now."""

    id: int
    schedule_id: int
    target_id: int
    dedup_id: str
    due_at: datetime
    reason: str
    source: Source
    origin: str
    attempt: int


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


class GrownBeat(NamedTuple):
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


class NewRun(NamedTuple):
    beat_id: int
    schedule_id: int
    attempt: int


class FinishedRun(NamedTuple):
    """A run that is over, as the node that held it tells it."""

    run_id: int
    started_at: datetime | None
    outcome: Outcome
    log: str | None = None


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


class Counted(NamedTuple):
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


class Timed(NamedTuple):
    """The decision that stands for a schedule, as its columns."""

    next_run_at: datetime | None
    next_due_at: datetime | None
    next_source: Source
    next_origin: str
    next_trace: str
    wake_at: datetime | None


class Room(NamedTuple):
    target_id: int
    max_concurrent: int
    running: int
    has_waiting: bool = False


class Catalogue(Protocol):
    """What a fleet consists of: the side of the ledger that `apply` and its like work on."""

    def plans(self, texts: Iterable[str]) -> dict[str, int]:
        """The ids of these plans, written down where they are new."""
        ...

    def targets(self) -> dict[str, tuple[int, TargetRow]]:
        """All targets that are not removed, by name, with their ids."""
        ...

    def add_targets(self, rows: Sequence[TargetRow]) -> list[int]:
        """Their ids. A removed target of the same name comes back under its old id, with its history."""
        ...

    def change_targets(self, rows: Sequence[tuple[int, TargetRow]]) -> None: ...

    def remove_targets(self, ids: Sequence[int], now: datetime) -> None: ...

    def schedules_of(self, target_ids: Iterable[int]) -> dict[tuple[int, str], tuple[int, ScheduleRow]]:
        """All schedules of these targets that are not removed, by target and name, with their ids."""
        ...

    def add_schedules(self, rows: Sequence[tuple[ScheduleRow, Timed]], now: datetime) -> None: ...

    def edit_schedules(self, rows: Sequence[tuple[int, ScheduleRow, Timed]], now: datetime) -> None: ...

    def remove_schedules(self, ids: Sequence[int], now: datetime) -> None: ...


class Transaction(Catalogue, Protocol):
    """Everything a turn of the engine may do, inside one transaction. Batches in, batches out."""

    def due_schedules(self, now: datetime, limit: int) -> list[Standing]:
        """Schedules whose `wake_at` has come, oldest first."""
        ...

    def schedules(self, ids: Iterable[int]) -> dict[int, Standing]: ...

    def due_beats(self, now: datetime, limit: int) -> list[WaitingBeat]:
        """Pending beats whose `wake_at` has come, oldest first."""
        ...

    def rooms(self, target_ids: Iterable[int]) -> dict[int, Room]: ...

    def next_wake(self) -> datetime | None:
        """The first moment at which a schedule or a beat has to be looked at."""
        ...

    def add_beats(self, beats: Sequence[NewBeat]) -> list[int | None]:
        """Their ids in order; None for one whose dedup id exists already, which was then not written."""
        ...

    def grow_beats(self, beats: Sequence[GrownBeat], now: datetime) -> None: ...

    def change_beats(self, beats: Sequence[ChangedBeat], now: datetime) -> None: ...

    def wake_waiting(self, target_id: int, room: int, now: datetime) -> None:
        """Make as many waiting beats of a target due as it has room for: highest priority, then oldest first."""
        ...

    def add_runs(self, runs: Sequence[NewRun], node_id: int, now: datetime) -> list[int]: ...

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        """Those of the runs that are still open. What the sweep has closed is not among them."""
        ...

    def orphaned_runs(self, node_id: int) -> list[int]:
        """Open runs of other nodes than this one."""
        ...

    def finish_runs(self, runs: Sequence[FinishedRun], now: datetime) -> None: ...

    def start_paced(self, started: Sequence[tuple[int, datetime]], now: datetime) -> None:
        """Intervals that start (schedule, due instant): no next time until their run is over."""
        ...

    def count_schedules(self, counted: Sequence[Counted], started_at: datetime | None) -> None: ...

    def change_schedules(self, schedules: Sequence[ChangedSchedule]) -> None: ...

    def move_rooms(self, moves: dict[int, int]) -> None: ...

    def end_one_shots(self, due: Sequence[tuple[int, datetime]], now: datetime) -> None:
        """A claim uses up the one-shot hints up to its instant."""
        ...

    def gaps(self, since: datetime) -> list[Gap]:
        """Gaps that end after the moment, in order."""
        ...

    def add_gap(self, gap: Gap) -> None: ...

    def join_node(self, host: str, pid: int, version: str, now: datetime) -> int:
        """The number of the new node."""
        ...

    def last_sign_of_life(self) -> datetime | None:
        """When any node was last known to live; None if there never was one."""
        ...

    def renew_node(self, node_id: int, now: datetime) -> None: ...

    def leave_node(self, node_id: int, now: datetime) -> None: ...

    def oldest_wake(self) -> datetime | None:
        """The longest overdue moment, or the next one."""
        ...

    def pull_back(self, now: datetime) -> None:
        """After the clock was put back: what lies in the future is looked at again now."""
        ...


class Store(Protocol):
    """Durable once a call has returned. Raises StoreUnavailable if it cannot be."""

    async def write(self, work: Callable[[Transaction], T]) -> T: ...
