"""What a store promises. The scheduler sees nothing else of it.

All rules about time and capacity live above; a store keeps rows, changes them in one transaction, and hands
them out as values. Times are aware UTC datetimes on this side of the wall.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from herdbeat.domain.beat import Gap
from herdbeat.domain.budget import BudgetDay, BudgetOwner, Reservation, SpendAdjustment, SpendTotals
from herdbeat.domain.change import Change
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Budget
from herdbeat.governor.state import Pause
from herdbeat.store.rows import (
    BeatExtension,
    CatchupCursor,
    ChangedBeat,
    ChangedSchedule,
    CounterCheck,
    CounterDelta,
    DeletedBeats,
    EnabledInFile,
    FinishedRun,
    InconsistencyCandidates,
    LastAttempt,
    NewBeat,
    NewRun,
    NextRunColumns,
    OpenRun,
    PendingBeat,
    ScheduleRow,
    ScheduleSnapshot,
    StopRequest,
    TargetCapacity,
    TargetCounterCheck,
    TargetRow,
)

# What a store promises to those who ask something of single beats and runs. A part of `base`.


class RunRequestTransaction(Protocol):
    """What people ask of single beats and runs: skip, cancel, retry, backfill."""

    def set_skips(self, schedule_id: int, skips: int, by: str, reason: str) -> None:
        """How many of the next clock instants are let pass; 0 for none."""
        ...

    def schedule_consume_skips(self, used: Sequence[tuple[int, int]]) -> None:
        """Instants (schedule, how many) that have come, and passed."""
        ...

    def beat_list_pending_by_schedule(self, schedule_ids: Iterable[int]) -> list[PendingBeat]:
        """All pending beats of these schedules, whatever they wait for."""
        ...

    def last_attempt(self, run_id: int) -> LastAttempt | None:
        """The newest run of the beat that a run belongs to; None if there is no such run."""
        ...

    def retry_beat(self, beat_id: int, attempt: int, *, by: str, reason: str, now: datetime) -> None:
        """A settled beat waits again, for an attempt by hand."""
        ...

    def mark_retries(self, runs: Sequence[tuple[int, str]]) -> None:
        """Runs (id, by whom) that have a cause of their own, beside that of their beat."""
        ...

    def run_request_stop(
        self,
        why: str,
        *,
        schedules: Sequence[int] = (),
        runs: Sequence[int] = (),
        node_id: int = 0,
        force: bool = False,
    ) -> list[tuple[int, int]]:
        """Leave word for the nodes that have these runs, or any of these schedules. Which (schedule, run) those are.

        What `node_id` has itself is left out: it knows. Whoever has a file alone has nobody to leave word for.
        """
        ...

    def last_backfill(self, schedule_id: int) -> int:
        """The number of the newest backfill that the ledger keeps; 0 if there was none."""
        ...


# What a store promises about budgets: those that are shared, and what is used of all of them.


class BudgetTransaction(Protocol):
    """What those with a budget have used, by days: schedules, targets, the fleet."""

    def has_budgets(self) -> bool:
        """Whether any budget is shared: a cheap question for a claim, since few fleets have one."""
        ...

    def budgets(self, target_ids: Iterable[int]) -> dict[BudgetOwner, Budget]:
        """Those that are shared: of these targets, and of the fleet. A schedule's own is in its plan."""
        ...

    def set_budgets(self, budgets: Mapping[BudgetOwner, Budget | None]) -> None:
        """Write shared budgets down; None takes one away."""
        ...

    def budget_get_usage(self, accounts: Collection[BudgetDay]) -> dict[BudgetDay, SpendTotals]:
        """What is used of each. Nobody else counts anything there until the end of this transaction."""
        ...

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        """What the newest so many runs of each said they used; those that said nothing are left out."""
        ...

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        """Count these runs and their estimates as used, until their finish knows better."""
        ...

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]: ...

    def drop_reservations(self, run_ids: Sequence[int]) -> None: ...

    def add_spend(self, corrections: Sequence[SpendAdjustment]) -> None: ...

    def drop_spend(self, before: str) -> int:
        """Forget the days before that one; how many there were."""
        ...


# What a store that several nodes share has beside its ledger: a clock for all, and word of what others change.


class SharedStore(Protocol):
    """Its calls block: each is for a thread of its own."""

    def now(self) -> datetime:
        """The store's own clock. Raises StoreUnavailable."""
        ...

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call back whenever somebody has changed something, until closed. A hint only: some may be lost."""
        ...

    def list_stop_requests(self, node_id: int) -> Sequence[StopRequest]:
        """Which runs of a node somebody elsewhere wants to end. Raises StoreUnavailable."""
        ...

    def ack_stop_requests(self, node_id: int, run_ids: Sequence[int]) -> None:
        """These were taken up. What was asked of runs that are over is forgotten, too."""
        ...

    def publish_output(self, texts: Mapping[int, str]) -> None:
        """The end of what runs have printed until now, for who looks from elsewhere. Raises StoreUnavailable."""
        ...

    def abandon_node(self) -> None:
        """This process is no node any more: what it writes is nobody's, until it joins again."""
        ...

    def close(self) -> None: ...


__all__ = [
    "BeatExtension",
    "BudgetTransaction",
    "CatchupCursor",
    "ChangeTransaction",
    "ChangedBeat",
    "ChangedSchedule",
    "CounterCheck",
    "CounterDelta",
    "DeletedBeats",
    "EnabledInFile",
    "FinishedRun",
    "FleetTransaction",
    "InconsistencyCandidates",
    "LastAttempt",
    "MaintenanceTransaction",
    "NewBeat",
    "NewRun",
    "NextRunColumns",
    "OpenRun",
    "PendingBeat",
    "RunRequestTransaction",
    "ScheduleRow",
    "ScheduleSnapshot",
    "SharedStore",
    "StopRequest",
    "Store",
    "TargetCapacity",
    "TargetCounterCheck",
    "TargetRow",
    "Transaction",
]

T = TypeVar("T")


class FleetTransaction(Protocol):
    """What a fleet consists of: the side of the ledger that `apply` and its like work on."""

    def fleet_name(self) -> str | None:
        """Whose ledger this is; None if nobody has said so yet."""
        ...

    def fleet_claim_name(self, name: str) -> str:
        """Say whose it is. Where nodes share it, the first one's word counts, and is the answer."""
        ...

    def plan_find_many(self, texts: Iterable[str]) -> dict[str, int]:
        """The ids of those of these plans that are stored."""
        ...

    def plan_upsert_many(self, texts: Iterable[str]) -> dict[str, int]:
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

    def schedule_list_by_target(self, target_ids: Iterable[int]) -> dict[tuple[int, str], tuple[int, ScheduleRow]]:
        """All schedules of these targets that are not removed, by target and name, with their ids."""
        ...

    def add_schedules(self, rows: Sequence[tuple[ScheduleRow, NextRunColumns]], now: datetime) -> None: ...

    def edit_schedules(self, rows: Sequence[tuple[int, ScheduleRow, NextRunColumns]], now: datetime) -> None: ...

    def schedule_update_origin(self, rows: Sequence[tuple[int, str]]) -> None:
        """Another origin (schedule, place), and nothing else."""
        ...

    def remove_schedules(self, ids: Sequence[int], now: datetime) -> None: ...


class MaintenanceTransaction(Protocol):
    """What keeps the ledger well, off the fire path: looking closely at a few rows, mending and removing them."""

    def schedule_count_open(self, ids: Iterable[int]) -> dict[int, CounterCheck]: ...

    def target_count_running(self, ids: Iterable[int]) -> list[TargetCounterCheck]: ...

    def target_list_stalled(self, ids: Iterable[int], now: datetime) -> list[TargetCounterCheck]:
        """Those that have room and beats waiting for it, of which none is going to wake."""
        ...

    def beat_list_stuck(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        """Those that are pending and wait for nothing, with the labels of their schedules."""
        ...

    def set_counters(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Running and waiting of a schedule, as they really are."""
        ...

    def target_set_running(self, rows: Sequence[tuple[int, int]]) -> None: ...

    def wake_beats(self, ids: Sequence[int], now: datetime) -> None: ...

    def wake_schedules(self, ids: Sequence[int], now: datetime) -> None: ...

    def pending_beats(self, limit: int) -> list[PendingBeat]: ...

    def unfinished_runs(self, limit: int) -> list[int]: ...

    def schedule_ids(self, after: int, limit: int) -> list[int]:
        """A page of the schedules that are not removed."""
        ...

    def schedule_settle_all(self, now: datetime) -> None:
        """Nothing that was due until now is ever due again."""
        ...

    def run_list_by_beat(self, beat_ids: Iterable[int]) -> list[tuple[int, datetime, datetime]]:
        """The runs of settled beats: id, when claimed, when over."""
        ...

    def drop_beats(self, ids: Sequence[int]) -> DeletedBeats:
        """Remove those that are settled, with their runs. What is pending or running stays."""
        ...

    def drop_plans(self, ids: Sequence[int]) -> int:
        """Remove those that no schedule has."""
        ...

    def drop_nodes(self, before: datetime) -> int:
        """Forget nodes that were gone by then and have no run in the ledger. The last sign of life stays."""
        ...

    def drop_hints(self, ended_before: datetime, limit: int) -> int: ...


class ChangeTransaction(Protocol):
    """The record of who changed what, and what only a change by hand touches."""

    def add_changes(self, changes: Sequence[Change]) -> None: ...

    def drop_changes(self, before: datetime, most: int, limit: int) -> int:
        """Remove those from before a moment, and those beyond the newest so many."""
        ...

    def schedule_get_enabled(self, ids: Iterable[int]) -> dict[int, EnabledInFile]:
        """What the files say of these schedules. One that was removed is not among them."""
        ...

    def schedule_rearm(self, ids: Sequence[int]) -> None:
        """One-shots that are done may fire once more, each under a new dedup id."""
        ...

    def schedule_reset_failures(self, schedule_id: int) -> None: ...

    def extend_hint(self, schedule_id: int, hint: Hint, now: datetime) -> bool:
        """Move the end of the very same wish of the same author. False if there is none."""
        ...

    def hint_end_by_rank(self, schedule_id: int, ranks: Sequence[str], now: datetime, by: str) -> None:
        """End the hints of some ranks, named as origins name them: human, agent, rule, planner."""
        ...

    def hint_count_recent(self, schedule_id: int, origin: str, since: datetime) -> int: ...

    def trim_hints(self, schedule_id: int, rank: str, now: datetime, *, one_shots: int, ended: int) -> None:
        """Keep so many one-shots of a rank, the earliest, and so many rows of ended hints, the newest."""
        ...


class Transaction(
    FleetTransaction, MaintenanceTransaction, RunRequestTransaction, BudgetTransaction, ChangeTransaction, Protocol
):
    """Everything a turn of the engine may do, inside one transaction. Batches in, batches out."""

    def due_schedules(self, now: datetime, limit: int) -> list[ScheduleSnapshot]:
        """Schedules whose `wake_at` has come, oldest first."""
        ...

    def schedule_list_due_excluding(
        self, now: datetime, limit: int, targets: Iterable[int], since: datetime
    ) -> list[ScheduleSnapshot]:
        """The same, without those of some targets, and none that was due before a moment."""
        ...

    def schedules(self, ids: Iterable[int]) -> dict[int, ScheduleSnapshot]: ...

    def due_beats(self, now: datetime, limit: int) -> list[PendingBeat]:
        """Pending beats whose `wake_at` has come, oldest first."""
        ...

    def beat_count_catchup(self, schedule_ids: Iterable[int]) -> dict[int, int]:
        """How many beats of these schedules wait for their pace (`catchup_rate`), and for nothing else."""
        ...

    def catchup_get_cursor(self) -> CatchupCursor:
        """Which places in the fleet's pace are given away. Nobody else is given one until this transaction ends."""
        ...

    def catchup_set_cursor(self, free_at: datetime) -> None: ...

    def target_get_capacity(self, target_ids: Iterable[int]) -> dict[int, TargetCapacity]: ...

    def run_count_active(self) -> int:
        """How many runs of all nodes are going. Nobody else starts one until the end of this transaction."""
        ...

    def next_wake(self) -> datetime | None:
        """The first moment at which a schedule or a beat has to be looked at."""
        ...

    def add_beats(self, beats: Sequence[NewBeat]) -> list[int | None]:
        """Their ids in order; None for one whose dedup id exists already, which was then not written."""
        ...

    def beat_extend_many(self, beats: Sequence[BeatExtension], now: datetime) -> None: ...

    def change_beats(self, beats: Sequence[ChangedBeat], now: datetime) -> None: ...

    def beat_wake_pending(self, target_id: int, room: int, now: datetime) -> None:
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

    def schedule_mark_started(self, started: Sequence[tuple[int, datetime]], now: datetime) -> None:
        """Intervals that start (schedule, due instant): no next time until their run is over."""
        ...

    def schedule_adjust_counters(self, counted: Sequence[CounterDelta], started_at: datetime | None) -> None: ...

    def change_schedules(self, schedules: Sequence[ChangedSchedule]) -> None: ...

    def target_adjust_running(self, moves: dict[int, int]) -> None: ...

    def end_one_shots(self, due: Sequence[tuple[int, datetime]], now: datetime) -> None:
        """A claim uses up the one-shot hints up to its instant."""
        ...

    def set_pause(self, schedule_id: int, pause: Pause | None) -> None: ...

    def set_disabled(self, schedule_id: int, by: str | None) -> None: ...

    def skip_waiting(self, schedule_id: int, reason: str, now: datetime) -> int:
        """Settle the clock beats of a schedule that wait; how many of them the schedule counted as waiting."""
        ...

    def add_hint(self, schedule_id: int, hint: Hint, now: datetime) -> None:
        """Write a hint down. An older pace of the same rank ends, and so does what has expired."""
        ...

    def end_hints(self, schedule_id: int, now: datetime, by: str) -> None: ...

    def gaps(self, since: datetime) -> list[Gap]:
        """Gaps that end after the moment, in order."""
        ...

    def add_gap(self, gap: Gap) -> None: ...

    def join_node(
        self, host: str, pid: int, version: str, now: datetime, labels: Sequence[str] = (), *, works: bool = True
    ) -> int:
        """The number of the new node. Its labels are what `runs_on` of a schedule may ask for.

        One that does not work keeps no beat from being missed.
        """
        ...

    def node_get_last_seen(self) -> datetime | None:
        """When any node was last known to live; None if there never was one."""
        ...

    def renew_node(self, node_id: int, now: datetime) -> None: ...

    def leave_node(self, node_id: int, now: datetime) -> None: ...

    def oldest_wake(self) -> datetime | None:
        """The longest overdue moment, or the next one."""
        ...

    def schedule_requeue_future(self, now: datetime) -> None:
        """After the clock was put back: what lies in the future is looked at again now."""
        ...


class Store(Protocol):
    """Durable once a call has returned. Raises StoreUnavailable if it cannot be."""

    async def write(self, work: Callable[[Transaction], T]) -> T: ...
