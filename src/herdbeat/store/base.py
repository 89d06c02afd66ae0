"""The contract of a store. The scheduler sees nothing else of it.

All rules about time and capacity live above: a store keeps rows, changes them in one transaction, and returns
them as values. Times are aware UTC datetimes on this side of the seam.
"""

from __future__ import annotations  # the contract names values of every package; few commands need them

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from herdbeat.store.rows import (
    AgentRunRow,
    AttentionClearing,
    AttentionMark,
    BeatExtension,
    BeatRun,
    CatchupCursor,
    ChangedBeat,
    ChangedSchedule,
    ClearingScope,
    CounterCheck,
    CounterDelta,
    DeletedBeats,
    EnabledInFile,
    FinishedRun,
    Gate,
    InconsistencyCandidates,
    LastAttempt,
    Neighbour,
    NewBeat,
    NewRun,
    NextRunColumns,
    OlderNode,
    OpenRun,
    PausableSchedule,
    PendingBeat,
    RangeRow,
    RareGates,
    RuleEntry,
    RunCostRow,
    ScheduleRow,
    ScheduleSnapshot,
    SessionKey,
    SessionRow,
    StartedInterval,
    StopRequest,
    TargetCapacity,
    TargetCounterCheck,
    TargetRow,
)

if TYPE_CHECKING:
    from herdbeat.domain.account_hold import AccountHold, AccountUse
    from herdbeat.domain.agent_run import ModelPrice, SessionTotals
    from herdbeat.domain.agent_tools import AgentHint, RunReport
    from herdbeat.domain.beat import Gap
    from herdbeat.domain.budget import BudgetDay, BudgetOwner, Reservation, SpendAdjustment, SpendTotals
    from herdbeat.domain.change import Change
    from herdbeat.domain.executor import ExecutorKind
    from herdbeat.domain.hint import Hint
    from herdbeat.domain.notification import ActiveCondition, Episode
    from herdbeat.domain.outbox import DeliveryRecord, NewDelivery
    from herdbeat.domain.planned_pause import PauseWindow, PlannedPause
    from herdbeat.domain.planner import PlannerSession
    from herdbeat.domain.policies import Budget
    from herdbeat.domain.remote_run import NewRemoteRun, RemoteRun
    from herdbeat.domain.rule_state import RuleState
    from herdbeat.domain.selection import Selection
    from herdbeat.domain.work_claim import NewWorkClaim, WorkClaimRecord
    from herdbeat.domain.work_item import WorkItem
    from herdbeat.governor.state import Pause
    from herdbeat.platform import ProcessOrigin

__all__ = ["CatchupCursor", "ChangedSchedule", "CounterDelta", "EnabledInFile", "NextRunColumns", "ScheduleRow"]
__all__ += ["BeatExtension", "BeatRun", "ChangedBeat", "DeletedBeats", "NewBeat", "PendingBeat", "ScheduleSnapshot"]
__all__ += ["FinishedRun", "LastAttempt", "NewRun", "OpenRun", "RangeRow", "StopRequest", "TargetCapacity", "TargetRow"]
__all__ += [
    "AgentRunRow",
    "AttentionClearing",
    "AttentionMark",
    "RareGates",
    "RuleEntry",
    "RunCostRow",
    "SessionKey",
    "SessionRow",
]
__all__ += ["ClearingScope", "Gate", "Neighbour", "OlderNode", "StartedInterval"]
__all__ += ["CounterCheck", "InconsistencyCandidates", "SharedStore", "Store", "TargetCounterCheck", "Transaction"]

T = TypeVar("T")


class Transaction(Protocol):
    """Everything the scheduler does to the ledger, inside one transaction. Batches in, batches out."""

    # ── schedules ──

    def due_schedules(self, now: datetime, limit: int) -> list[ScheduleSnapshot]:
        """Return the schedules whose `wake_at` has come, oldest first."""

    def schedule_list_due_excluding(
        self, now: datetime, limit: int, targets: Iterable[int], since: datetime
    ) -> list[ScheduleSnapshot]:
        """Return due schedules that were not due before `since` and belong to none of these targets."""

    def schedules(self, ids: Iterable[int]) -> dict[int, ScheduleSnapshot]: ...

    def next_wake(self) -> datetime | None:
        """Return the first moment at which a schedule or a beat has to be evaluated."""

    def oldest_wake(self) -> datetime | None:
        """Return the longest overdue `wake_at` of a schedule, or the next one."""

    def schedule_mark_started(self, started: Sequence[StartedInterval], now: datetime) -> None:
        """Mark intervals as started: they have no next time until their run ends.

        Their snapshots are as they were read in this transaction, with all that it has changed since.
        """

    def schedule_adjust_counters(self, counted: Sequence[CounterDelta], started_at: datetime | None) -> None: ...

    def change_schedules(self, schedules: Sequence[ChangedSchedule]) -> None: ...

    def set_pause(self, schedule_id: int, pause: Pause | None) -> None: ...

    def set_disabled(self, schedule_id: int, by: str | None) -> None: ...

    def set_skips(self, schedule_id: int, skips: int, by: str, reason: str) -> None:
        """Set how many of the next clock instants are skipped; 0 for none."""

    def schedule_consume_skips(self, used: Sequence[tuple[int, int]]) -> None:
        """Count skipped instants (schedule, how many) as used up."""

    def schedule_get_enabled(self, ids: Iterable[int]) -> dict[int, EnabledInFile]:
        """Return what the files say about these schedules. Removed schedules are left out."""

    def schedule_rearm(self, ids: Sequence[int]) -> None:
        """Let finished one-shots fire once more, each under a new dedup id."""

    def schedule_reset_failures(self, schedule_id: int) -> None: ...

    def schedule_latest_mark(self) -> datetime | None:
        """Return the latest moment up to which any schedule is settled or was decided; None if there is none."""

    def withdraw_future(self, now: datetime, step: timedelta) -> None:
        """After the clock moved back by `step`: forget what is settled after `now`, except for what really started.

        Every schedule whose mark lies in the future is decided again, and waiting beats wake that much earlier.
        """

    # ── beats ──

    def due_beats(self, now: datetime, limit: int) -> list[PendingBeat]:
        """Return the pending beats whose `wake_at` has come, oldest first."""

    def beat_list_pending_by_schedule(self, schedule_ids: Iterable[int]) -> list[PendingBeat]:
        """Return all pending beats of these schedules, whatever they wait for."""

    def beat_count_catchup(self, schedule_ids: Iterable[int]) -> dict[int, int]:
        """Count the beats of these schedules that wait only for their slot under `catchup_rate`."""

    def catchup_get_cursor(self) -> CatchupCursor:
        """Return which catch-up slots are taken. No other node takes one until this transaction ends."""

    def catchup_set_cursor(self, free_at: datetime) -> None: ...

    def start_slot_get_cursor(self, now: datetime) -> CatchupCursor:
        """Return which slots of paced starts are taken. No other node takes one until this transaction ends."""

    def start_slot_set_cursor(self, free_at: datetime) -> None: ...

    def add_beats(self, beats: Sequence[NewBeat]) -> list[int | None]:
        """Return their ids in order; None where the dedup id exists already and nothing was written."""

    def beat_list_recorded(self, windows: Sequence[tuple[int, str, str]]) -> dict[int, list[tuple[datetime, datetime]]]:
        """Return by schedule which instants have a beat: first and last of each row, in order of time.

        A window is a schedule of a calendar and two dedup ids: after the first, up to the second.
        """

    def beat_list_across(self, now: datetime, last_id: str) -> list[RangeRow]:
        """Return the rows of calendars that did not run and extend beyond `now`; `last_id` is the dedup id of `now`."""

    def beat_cut_many(self, rows: Sequence[tuple[int, int, datetime]]) -> None:
        """Shorten rows (id, count, last instant) of instants that did not run."""

    def beat_extend_many(self, beats: Sequence[BeatExtension], now: datetime) -> None: ...

    def change_beats(self, beats: Sequence[ChangedBeat], now: datetime) -> None: ...

    def beat_wake_pending(self, target_id: int, room: int, now: datetime) -> None:
        """Make as many waiting beats of a target due as it has room for: highest priority, then oldest first."""

    def skip_waiting(self, schedule_id: int, reason: str, now: datetime) -> int:
        """Settle the waiting clock beats of a schedule; return how many of them its `waiting` counter included."""

    def retry_beat(self, beat_id: int, attempt: int, *, by: str, reason: str, now: datetime) -> None:
        """Make a settled beat pending again, for a manual attempt."""

    def find_beat(self, schedule_id: int, dedup_id: str) -> int | None:
        """Return the beat of a schedule that has this dedup id."""

    def rename_beats(self, beats: Sequence[tuple[int, str]]) -> None:
        """Give beats (id, dedup id) that start another dedup id. One that its schedule has already stays."""

    def last_backfill(self, schedule_id: int) -> int:
        """Return the number of the newest backfill in the ledger; 0 if there is none."""

    # ── runs ──

    def run_count_active(self) -> int:
        """Count the open runs of all nodes. No other node starts one until this transaction ends."""

    def add_runs(self, runs: Sequence[NewRun], node_id: int, now: datetime) -> list[int]: ...

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        """Return those of the runs that are still open. Runs that a rescue has closed are left out."""

    def orphaned_runs(self, node_id: int) -> list[int]:
        """Return open runs that belong to other nodes than this one."""

    def finish_runs(self, runs: Sequence[FinishedRun], now: datetime) -> None: ...

    def last_attempt(self, run_id: int) -> LastAttempt | None:
        """Return the newest run of the beat that a run belongs to; None if there is no such run."""

    def mark_retries(self, runs: Sequence[tuple[int, str]]) -> None:
        """Mark runs (id, origin) as manual retries: their source differs from that of their beat."""

    def run_request_stop(
        self,
        why: str,
        *,
        schedules: Sequence[int] = (),
        runs: Sequence[int] = (),
        node_id: int = 0,
        force: bool = False,
    ) -> list[tuple[int, int]]:
        """Ask other nodes to stop these runs, or any run of these schedules; return the (schedule, run) pairs.

        Runs of `node_id` are left out: the caller stops those itself. A file has one node, so nothing is requested.
        """

    # ── targets ──

    def lock_definitions(self) -> None:
        """Wait until no other transaction adds, edits or removes targets and schedules, and let none begin to."""

    def targets(self) -> dict[str, tuple[int, TargetRow]]:
        """Return all targets that are not removed, by name, with their ids."""

    def add_targets(self, rows: Sequence[TargetRow]) -> list[int]:
        """Return their ids. A removed target of the same name returns under its old id, with its history."""

    def change_targets(self, rows: Sequence[tuple[int, TargetRow]]) -> None: ...

    def remove_targets(self, ids: Sequence[int], now: datetime) -> None: ...

    def target_get_capacity(self, target_ids: Iterable[int]) -> dict[int, TargetCapacity]: ...

    def target_adjust_running(self, moves: dict[int, int]) -> None: ...

    # ── nodes ──

    def join_node(
        self,
        host: str,
        pid: int,
        version: str,
        now: datetime,
        labels: Sequence[str] = (),
        *,
        works: bool = True,
        origin: ProcessOrigin | None = None,
    ) -> int:
        """Return the number of the new node. `runs_on` of a schedule selects nodes by their labels.

        A node that does not work does not count as having been there: time without any other node is a gap. By its
        `origin`, nodes on the same machine see when its process ends.
        """

    def node_give_up(self, node_ids: Sequence[int]) -> None:
        """Declare nodes dead whose processes have ended. One that is in the middle of a write is left alone."""

    def node_get_last_seen(self) -> datetime | None:
        """Return when any node was last known to be alive; None if there never was one."""

    def node_list_older(self, gate: Gate) -> list[OlderNode]:
        """Return the live nodes that would start what this gate keeps back. A file has one node: there are none."""

    def renew_node(self, node_id: int, now: datetime) -> None: ...

    def leave_node(self, node_id: int, now: datetime) -> None: ...

    def node_set_metrics(self, node_id: int, data: str, now: datetime) -> None:
        """Keep the counters of a node, as JSON, for others that are asked for metrics."""

    def node_drop_metrics(self, before: datetime) -> None:
        """Forget the counters of nodes that have written none since."""

    def gaps(self, since: datetime) -> list[Gap]:
        """Return the gaps that end after the moment, in order."""

    def add_gap(self, gap: Gap) -> None: ...

    # ── hints ──

    def add_hint(self, schedule_id: int, hint: Hint, now: datetime) -> None:
        """Add a hint. It ends expired hints, and an older interval hint of the same rank."""

    def extend_hint(self, schedule_id: int, hint: Hint, now: datetime) -> bool:
        """Move the end of an identical hint of the same author. Return False if there is none."""

    def end_one_shots(self, due: Sequence[tuple[int, datetime]], now: datetime) -> None:
        """Consume the one-shot hints (schedule, instant) up to the claimed instant."""

    def hint_end_by_rank(self, schedule_id: int, ranks: Sequence[str], now: datetime, by: str) -> None:
        """End the hints of some ranks, named as origins name them: human, agent, rule, planner."""

    def hint_restore(self, schedule_id: int, changed_at: datetime, now: datetime, by: str) -> None:
        """End what `by` gave at a moment, and revive what was replaced or ended by it then, unless it has expired."""

    def hint_count_recent(self, schedule_id: int, origin: str, since: datetime) -> int: ...

    def trim_hints(self, schedule_id: int, rank: str, now: datetime, *, one_shots: int, ended: int) -> None:
        """Keep the earliest `one_shots` one-shots of a rank, and the newest `ended` rows of ended hints."""

    # ── budgets ──

    def rare_gates(self) -> RareGates:
        """Return whether any budget is shared and any account is held. Cheap, for the claim: few fleets have one."""

    def budgets(self, target_ids: Iterable[int]) -> dict[BudgetOwner, Budget]:
        """Return the shared budgets: of these targets, and of the fleet. A schedule's own is in its plan."""

    def set_budgets(self, budgets: Mapping[BudgetOwner, Budget | None]) -> None:
        """Store shared budgets; None deletes one."""

    def budget_get_usage(self, accounts: Collection[BudgetDay]) -> dict[BudgetDay, SpendTotals]:
        """Return the usage of each. No other node changes these rows until this transaction ends."""

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        """Return the usage that the newest `limit` runs of each reported; runs that reported none are left out."""

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        """Count these runs and their estimates as used, until their completion corrects them."""

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]: ...

    def drop_reservations(self, run_ids: Sequence[int]) -> None: ...

    def add_spend(self, corrections: Sequence[SpendAdjustment]) -> None: ...

    # ── agents: only for runs that have a report, and for claims while an account is held ──

    def agent_run_add_many(self, rows: Sequence[AgentRunRow]) -> None:
        """Keep answers, tool calls and prompts. Long texts are cut."""

    def cost_add_many(self, rows: Sequence[RunCostRow]) -> None: ...

    def prices(self) -> dict[str, ModelPrice]:
        """Return the prices that the fleet file has, by model."""

    def set_prices(self, prices: Mapping[str, ModelPrice]) -> None: ...

    def beat_count_limited(self, beat_ids: Sequence[int]) -> None:
        """Count once more that a usage limit has sent these beats back."""

    def schedule_set_not_before(self, not_before: Mapping[int, datetime | None]) -> None:
        """Set until when a schedule must not run, as its target has asked; None undoes that."""

    def session_get_totals(self, keys: Iterable[SessionKey]) -> dict[SessionKey, SessionTotals]:
        """Return the stored totals of those that are known. No other node changes them until this transaction ends."""

    def session_keep_many(self, rows: Sequence[SessionRow], now: datetime) -> None:
        """Store sessions that were used, with their new totals. No run uses them any more."""

    def session_take(
        self, schedule_id: int, runtime: str, *, host: str, run_id: int, used_since: datetime, thread: str = ""
    ) -> str | None:
        """Return the session that a run continues; None if there is none, it is too old, or another run uses it.

        It is in use until that run is completed. With a `thread`, only the session of runs whose dedup ids begin so.
        """

    def account_get_many(self, schedule_ids: Iterable[int]) -> dict[int, AccountUse]:
        """Return which account and model the runs of these schedules use, as far as that is known."""

    def account_list_missing(self) -> dict[int, str]:
        """Return by target the spec, as JSON, of each agent that names no account and has not run yet."""
        ...

    def account_set_many(self, accounts: Mapping[int, str]) -> None:
        """Remember by target which account its last run used."""

    def hold_list_open(self) -> list[AccountHold]:
        """Return all holds that were not released, also those whose time is over."""

    def hold_get_last(self, account: str, model: str) -> AccountHold | None:
        """Return the newest hold, released or not. No other node adds one until this transaction ends."""

    def hold_add(self, hold: AccountHold) -> None: ...

    def hold_move(self, hold_id: int, until: datetime, *, stated: bool) -> None: ...

    def hold_end_many(self, ids: Sequence[int], now: datetime) -> None:
        """Close holds whose time is over. Those that another node is closing are left to it."""

    def hold_release(self, account: str, *, by: str, now: datetime) -> int:
        """Release all holds of an account and wake what waits; return how many holds there were."""

    def hold_end_streaks(self, successes: Sequence[tuple[str, datetime]]) -> None:
        """Note successes (account, started at): the next hold without a stated end is a short one again."""

    def attention_add_many(self, marks: Sequence[AttentionMark], now: datetime) -> None: ...

    def attention_clear_many(self, successes: Sequence[AttentionClearing], now: datetime) -> None:
        """Acknowledge marks in the name of a later run that needed no person."""

    def attention_list_open(self, run_ids: Iterable[int]) -> dict[int, str]:
        """Return those of these runs that were not acknowledged, with the labels of their schedules."""

    def attention_ack(self, run_ids: Sequence[int], *, by: str, now: datetime) -> int:
        """Acknowledge the open marks of these runs; return how many there were."""

    # ── work items ──

    def work_add(self, claim: NewWorkClaim, now: datetime) -> int | None:
        """Write a claim in state `claiming`. Return its id; None, with nothing written, if another has the item."""

    def work_list_taken(self, source: str, items: Iterable[str]) -> frozenset[str]:
        """Return which of these items cannot be taken now: they are claimed, or done at a source that marks nothing."""

    def work_count_attempts(self, claim: WorkClaimRecord, offered_at: datetime | None) -> int:
        """Return how many earlier claims used up an attempt of the item, since a person offered it at that time.

        Without a time: since the last report that did not offer it again.
        """

    def work_confirm(self, claim_id: int, *, attempt: int, item: WorkItem, offered_at: datetime | None) -> bool:
        """Turn `claiming` into `claimed`. Return False if the claim is no longer in that state."""

    def work_get(self, ids: Iterable[int]) -> dict[int, WorkClaimRecord]:
        """Return claims by id. No other node changes them until this transaction ends."""

    def work_list_by_run(self, run_ids: Iterable[int]) -> list[WorkClaimRecord]: ...

    def work_take_unsettled(self, now: datetime, until: datetime, host: str, limit: int) -> list[WorkClaimRecord]:
        """Return open claims whose run has ended and whose next try has come. They are left alone until `until`.

        Claims that only another machine can settle are left out.
        """

    def work_next_unsettled(self, host: str) -> datetime | None:
        """Return when the next of those is to be tried; None if there is none."""

    def work_take_over(self, host: str) -> None:
        """Make due what `work_take_unsettled` has given to a node that is gone, and bind open claims to this host.

        Only for a ledger with one node: it lies where the folders and programs of its sources are, also if the machine
        has another name now, as a container has after each start.
        """

    def work_change(self, claims: Sequence[WorkClaimRecord]) -> None:
        """Write the state of claims: `state`, `used`, `report`, `reason`, `tries`, `next_at`, `ended_at`."""

    def work_drop(self, before: datetime, limit: int) -> int:
        """Delete claims that ended before a moment. What a source does not remember itself stays."""

    def run_list_beside(self, beat_ids: Iterable[int]) -> list[BeatRun]:
        """Return all runs of these beats."""

    # ── what agents say through our tools ──

    def agent_hints(self, schedule_id: int, now: datetime) -> list[AgentHint]:
        """Return the wakes and the pace that an agent has in force, the oldest first."""

    def agent_hint_add(
        self, schedule_id: int, origin: str, *, run_id: int, is_wake: bool, request: str, note: str, now: datetime
    ) -> int:
        """Remember what the newest hint of this author was asked for with. Return the id of the hint."""

    def agent_hint_count_wakes(self, schedule_id: int, since: datetime) -> int:
        """Return how many wakes were asked for since a moment, those that were replaced too."""

    def hint_end(self, schedule_id: int, hint_id: int, now: datetime, by: str) -> None: ...

    # ── planner ──

    def planner_take_group(self, groups: Iterable[str], now: datetime, until: datetime) -> str | None:
        """Take the group whose analysis has been due the longest, until a moment; None if none of these is due.

        A group that was never analysed is due at once.
        """

    def planner_add_session(self, session: PlannerSession) -> None:
        """Record a session, and when its group is looked at again. Sessions of more than 30 days ago are dropped."""

    def hint_find(self, schedule_id: int, hint_id: int, now: datetime) -> Hint | None:
        """Return a hint that is in force; None if it has ended, or is that of another schedule."""

    def run_report(self, run_id: int) -> RunReport | None:
        """Return what the agent of an active run has reported; None if it has not."""

    def wake_note(self, run_id: int) -> str:
        """Return the note of the wake that a run is the answer to; empty if there is none."""

    def run_report_set(self, run_id: int, report: RunReport, now: datetime) -> None:
        """Keep the report of an active run, instead of an earlier one."""

    def run_key_claim(self, value: str) -> str:
        """Return what the tokens of runs are made with: this value, unless there is one already."""

    # ── runs on an engine ──

    def remote_add(self, run: NewRemoteRun, now: datetime) -> None:
        """Write a run that is about to be submitted. No process has taken it."""

    def remote_find(self, run_id: int) -> RemoteRun | None: ...

    def remote_list(self, node_id: int) -> list[RemoteRun]:
        """Return the open ones of a node."""

    def remote_job(self, run_id: int) -> tuple[str, str]:
        """Return what the process that takes a run gets, as JSON, and the hash of its one-run token; else empty."""

    def remote_take(self, run_id: int, nonce: str, place: str, lease_until: datetime) -> bool:
        """Give a process an open run that no process has taken, and whose stop was not requested.

        Return False if it cannot have it. Of two processes at the same time one gets it.
        """

    def remote_renew(self, run_id: int, nonce: str, lease_until: datetime) -> None:
        """Move the end of the lease, if this process has the run."""

    def remote_set_result(self, run_id: int, nonce: str, result: str) -> None:
        """Keep the result of the process that has the run. The first one stays."""

    def remote_stop(self, run_id: int, why: str) -> None:
        """Ask the process that has the run to stop, and refuse it to other processes from now on."""

    def remote_request_stop(
        self, why: str, *, schedules: Sequence[int] = (), runs: Sequence[int] = ()
    ) -> list[tuple[int, int]]:
        """Do the same for these runs, and all runs of these schedules, of any node; return the (schedule, run) pairs.

        Runs that do not happen on an engine are left out.
        """

    def remote_set_place(self, run_id: int, place: str) -> None: ...

    def remote_end_untaken(self, run_id: int) -> bool:
        """End a run that no process has taken. Return False if one has."""

    def remote_end_lapsed(self, run_id: int, now: datetime) -> bool:
        """End a run whose lease is over and that has no result. Return False if it was renewed meanwhile."""

    def remote_end(self, run_id: int) -> None:
        """Accept nothing more for a run."""

    def remote_extend(self, run_id: int, lease_until: datetime) -> None:
        """Extend the lease of a taken run, once in its life."""

    def remote_adopt(self, run_id: int, node_id: int) -> None:
        """Give an open run of a dead node to this one."""

    def remote_add_log(self, run_id: int, sequence: int, text: str) -> None:
        """Keep a part of the log. One with the same number is the same part."""

    def remote_log(self, run_id: int, after: int) -> list[tuple[int, str]]:
        """Return the parts with higher numbers, in order, and forget the others."""

    def remote_live_names(self, executor: ExecutorKind) -> list[str]:
        """Return the names of the jobs whose runs are open, of all nodes."""

    # ── deliveries ──

    def outbox_add(self, deliveries: Iterable[NewDelivery], now: datetime) -> None: ...

    def outbox_take(
        self, now: datetime, until: datetime, *, fence: int, host: str, limit: int, is_alone: bool
    ) -> list[DeliveryRecord]:
        """Return what is due, the oldest of each channel that sends nothing now, each counted as one more attempt.

        They belong to the sender `fence` until `until`, or until its node is given up: below 0 it is minus the id of
        its node. Programs are `started` from here on. Those of other hosts are
        left out, unless the node `is_alone`.
        """

    def outbox_end(self, delivery: DeliveryRecord) -> bool:
        """Write the state, next time, error and end of one that was taken. Return False if it has another sender."""

    def outbox_defer_channel(self, channel: str, until: datetime) -> None:
        """Send nothing of what waits in the channel before that."""

    def outbox_wake_channel(self, channel: str, now: datetime) -> None:
        """Make due what waits in the channel."""

    def outbox_end_leases(self, *, is_alone: bool) -> None:
        """Make due what nodes that are gone were sending. The sender that `is_alone` was the only one."""

    def outbox_end_started(self, now: datetime, error: str, *, is_alone: bool) -> int:
        """End the programs whose node is gone as `unknown`; return how many there were."""

    def outbox_end_open(self, now: datetime, error: str) -> int:
        """End everything that is not sent yet as `unknown`, and return how much that was."""

    def outbox_next(self, host: str, *, is_alone: bool) -> datetime | None:
        """Return when the next delivery is to be tried; None if there is none."""

    def outbox_drop(self, before: datetime, limit: int) -> int:
        """Delete deliveries that ended before a moment."""

    # ── episodes ──

    def episode_list_live(self) -> list[Episode]:
        """Return those that are open, or whose end is not reported.

        No other node reports until this transaction ends.
        """

    def episode_open_many(self, channel: str, conditions: Sequence[ActiveCondition], now: datetime) -> None:
        """Open an episode for each condition. One that is open already stays as it is."""

    def episode_change_many(self, episodes: Sequence[Episode]) -> None: ...

    def episode_drop(self, before: datetime, limit: int) -> int:
        """Delete episodes that ended before a moment."""

    # ── planned pauses ──

    def pause_plan(
        self, selection: Selection, *, from_at: datetime, until: datetime, by: str, reason: str, now: datetime
    ) -> int:
        """Write a planned pause, which holds no schedule yet, and return its id."""

    def planned_pauses(self, now: datetime, pause_id: int | None = None) -> list[PlannedPause]:
        """Return the planned pauses that are not over, or the one with this id, if it is not."""

    def pausable_schedules(self) -> list[PausableSchedule]:
        """Return all schedules, with what a selection needs to know of them."""

    def pause_hold(self, pause: PlannedPause, schedule_ids: Sequence[int]) -> None:
        """Let the pause hold these schedules, too, and wake them when it begins."""

    def pause_end(self, pause: PlannedPause, now: datetime, by: str) -> None:
        """End a planned pause now, and wake what it holds."""

    def windows_end(self, schedule_id: int, windows: Sequence[PauseWindow], now: datetime) -> None:
        """End these planned pauses for one schedule."""

    def pause_drop(self, now: datetime, before: datetime, limit: int) -> int:
        """Close the windows that ended before a moment, and delete the planned pauses without open ones."""

    def lease_take(self, name: str, holder: str, now: datetime, until: datetime) -> bool:
        """Take a lease or renew it. Return False if another holder has it."""

    # ── rules ──

    def rule_states(self, schedule_ids: Iterable[int]) -> dict[int, dict[str, RuleState]]:
        """Return what is remembered of the rules of these schedules, by name. Their rows are locked by `schedules`."""

    def rule_replace_states(self, entries: Sequence[RuleEntry], now: datetime) -> None:
        """Remember these instead of all that was known of the rules of their schedules."""

    def schedule_find(self, target: str, name: str) -> int | None:
        """Return the id of a schedule. Without a name it is `default`, or the only one of the target."""

    def beat_payload(self, beat_id: int) -> dict[str, object]:
        """Return what came with a beat; empty if nothing did."""

    # ── webhook calls ──

    def beat_find_many(self, pairs: Collection[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Return the beats that have these (schedule, dedup id)."""

    def beat_count_queued_events(self, schedule_ids: Iterable[int]) -> dict[int, int]:
        """Count the beats of webhook calls that wait, by schedule. A schedule without any is left out."""

    def beat_wake_held_events(self, schedule_id: int, now: datetime) -> None:
        """Make the events due that wait for the end of a pause, or for the schedule to be enabled."""

    def webhook_known_digests(self, pairs: Collection[tuple[int, str]], since: datetime) -> set[tuple[int, str]]:
        """Return those (schedule, digest) that were added since a moment."""

    def webhook_add_digests(self, pairs: Collection[tuple[int, str]], now: datetime) -> None:
        """Remember the signed content of accepted calls."""

    def webhook_drop_digests(self, before: datetime, limit: int) -> int:
        """Forget contents that were accepted before a moment."""

    # ── fleet: what `apply` reads and writes ──

    def fleet_name(self) -> str | None:
        """Return the name of the fleet that owns this ledger; None if none was set yet."""

    def fleet_claim_name(self, name: str) -> str:
        """Set the owner and return its name. In a shared ledger the first node's name wins."""

    def variables(self) -> list[str]:
        """Return the names of the variables that stored specs refer to."""

    def set_variables(self, names: Collection[str], *, is_whole: bool) -> None:
        """Store these names: those of a whole fleet, or more of them."""

    def old_secrets(self) -> list[str]:
        """Return the values that a version before references has stored; none after the first apply since."""

    def delete_old_secrets(self) -> None:
        """Delete them, and what is left of them in plans, messages and claims that are no longer needed."""

    def plan_find_many(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the ids of those of these plans that are stored."""

    def plan_upsert_many(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the ids of these plans; new ones are written."""

    def schedule_list_by_target(self, target_ids: Iterable[int]) -> dict[tuple[int, str], tuple[int, ScheduleRow]]:
        """Return the schedules of these targets that are not removed, by target and name, with their ids."""

    def add_schedules(self, rows: Sequence[tuple[ScheduleRow, NextRunColumns]], now: datetime) -> None: ...

    def edit_schedules(self, rows: Sequence[tuple[int, ScheduleRow, NextRunColumns]], now: datetime) -> None: ...

    def schedule_update_origin(self, rows: Sequence[tuple[int, str]]) -> None:
        """Set the origin (schedule, place) and nothing else."""

    def remove_schedules(self, ids: Sequence[int], now: datetime) -> None: ...

    # ── changes ──

    def add_changes(self, changes: Sequence[Change]) -> None: ...

    def drop_changes(self, before: datetime, most: int, limit: int) -> int:
        """Delete the changes from before a moment and those beyond the newest `most`; return how many."""

    # ── tokens, and the results of commands ──

    def add_token(
        self, name: str, digest: str, scope: str, *, by: str, now: datetime, expires_at: datetime | None
    ) -> None: ...

    def token_in_force(self, name: str, now: datetime) -> bool:
        """Return whether there is a token of that name that was not revoked and has not expired."""

    def revoke_token(self, name: str, by: str, now: datetime) -> bool:
        """Return whether there was one that was not revoked yet."""

    def lock_request(self, request_id: str) -> None:
        """Wait until no other transaction executes the request with this id."""

    def request_result(self, request_id: str) -> str | None:
        """Return the stored result of the command with that id; None if it was never executed."""

    def add_request(self, request_id: str, now: datetime, result: str) -> None: ...

    def drop_requests(self, before: datetime, limit: int) -> int: ...

    # ── maintenance: repair and retention, off the hot path ──

    def schedule_count_open(self, ids: Iterable[int]) -> dict[int, CounterCheck]: ...

    def target_count_running(self, ids: Iterable[int]) -> list[TargetCounterCheck]: ...

    def target_list_stalled(self, ids: Iterable[int], now: datetime) -> list[TargetCounterCheck]:
        """Return the targets that have room and waiting beats, none of which is going to wake."""

    def beat_list_stuck(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        """Return the beats that are pending and wait for nothing, with the labels of their schedules."""

    def set_counters(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Set the counters (schedule, running, waiting) to what was counted."""

    def target_set_running(self, rows: Sequence[tuple[int, int]]) -> None: ...

    def wake_beats(self, ids: Sequence[int], now: datetime) -> None: ...

    def wake_schedules(self, ids: Sequence[int], now: datetime) -> None: ...

    def pending_beats(self, limit: int) -> list[PendingBeat]: ...

    def unfinished_runs(self, limit: int) -> list[int]: ...

    def schedule_ids(self, after: int, limit: int) -> list[int]:
        """Return a page of the schedules that are not removed."""

    def schedule_settle_all(self, now: datetime) -> None:
        """Settle everything that was due until now: none of it becomes due again."""

    def run_list_by_beat(self, beat_ids: Iterable[int]) -> list[tuple[int, datetime, datetime]]:
        """Return the runs of settled beats: id, claimed at, ended at."""

    def drop_beats(self, ids: Sequence[int]) -> DeletedBeats:
        """Delete the settled ones with their runs. Pending and running beats stay."""

    def drop_plans(self, ids: Sequence[int]) -> int:
        """Delete the plans that no schedule has."""

    def drop_nodes(self, before: datetime) -> int:
        """Delete nodes that were gone by then and have no run in the ledger. The last sign of life stays."""

    def drop_hints(self, ended_before: datetime, limit: int) -> int: ...

    def drop_spend(self, before: str) -> int:
        """Delete the usage of days before that one; return how many rows."""

    def drop_sessions(self, before: datetime) -> int:
        """Delete the sessions that no run has used since; return how many."""

    def drop_holds(self, before: datetime) -> int:
        """Delete the holds that were released by then; return how many."""


class Store(Protocol):
    """A write is durable once the call has returned. Raises StoreUnavailable if it cannot be."""

    async def write(self, work: Callable[[Transaction], T]) -> T: ...


class SharedStore(Protocol):
    """What a ledger that several nodes share has beside its transactions: one clock, and news of other nodes.

    Every call blocks: call it in a thread.
    """

    def now(self) -> datetime:
        """Return the time of the store's own clock. Raises StoreUnavailable."""

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call back after every change by another node, until closed. A notification may be lost, so poll too."""

    def list_stop_requests(self, node_id: int) -> Sequence[StopRequest]:
        """Return the runs of a node that another node asks to stop. Raises StoreUnavailable."""

    def ack_stop_requests(self, node_id: int, run_ids: Sequence[int]) -> None:
        """Delete the requests that were carried out, and those for runs that have ended."""

    def list_neighbours(self, node_id: int, origin: ProcessOrigin) -> Sequence[Neighbour]:
        """Return the other live nodes of the same machine and namespaces. Raises StoreUnavailable."""

    def publish_output(self, texts: Mapping[int, str]) -> None:
        """Store the tail of what runs have printed so far, for other nodes to show. Raises StoreUnavailable."""

    def end_abandoned_sessions(self) -> None:
        """End transactions whose node was stopped in the middle of one: its locks keep all others from their work."""

    def abandon_node(self) -> None:
        """Stop writing as a node: later writes are not fenced, until this process joins again."""

    def close(self) -> None: ...
