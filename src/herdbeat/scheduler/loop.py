"""The loop: sleep until something is due, claim it, start it, and never wait for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.beat import Gap, MergedReason, SkipReason
from herdbeat.domain.remote_run import RemoteRun
from herdbeat.domain.run import Claim, Outcome, RunStatus, add_report
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.events import (
    AccountHeld,
    AccountReleased,
    BeatSettled,
    EventListener,
    GapDetected,
    RunStarted,
    ScheduleQuarantined,
    null_listener,
    safe_listener,
)
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.runners.base import Unstarted, attached_report, find_unstarted
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import (
    MAX_CLAIM_BATCH,
    ClaimContext,
    ClaimResult,
    SaturatedTargets,
    claim_due,
    move_clock_back,
)
from herdbeat.scheduler.complete import CompletionResult, RunCompleter
from herdbeat.scheduler.evaluate import REPLACED_BY_NEXT
from herdbeat.scheduler.execute import CancelledAfterTimeout
from herdbeat.scheduler.membership import NO_REPORTS, LostReports, OnLeaseRenewed, ignore_renewal
from herdbeat.scheduler.neighbours import HasLeftovers, no_leftovers
from herdbeat.scheduler.outbox import OutboxSender
from herdbeat.scheduler.quarantine import BatchRefused, QuarantinedSchedule, quarantine_first_due, write_batch
from herdbeat.scheduler.remote import RemoteRuns, RunDetached
from herdbeat.scheduler.remote_jobs import load_claim
from herdbeat.scheduler.spend import PriceEstimate
from herdbeat.scheduler.timers import ClockReading, Timer, cut_gaps, detect_gap, detect_step_back
from herdbeat.scheduler.work_settle import NodeWork
from herdbeat.store.base import FinishedRun, SharedStore, Store, Transaction
from herdbeat.timestamps import format_timestamp

log = logging.getLogger(__name__)

ExecuteRun = Callable[[Claim], Awaitable[FinishedRun]]
WaitStopped = Callable[[int], Awaitable[str]]
"""Returns once nothing of a run is active any more, or says what survives. `ExecuteRun` may return before that."""

PrefetchSpecs = Callable[[Sequence[Claim]], Awaitable[None] | None]
"""Called with the claims of a cycle before the first of them is executed."""

CanStart = Callable[[], bool]
"""Called right before a run starts: whether the node still holds what it has claimed."""

EvaluateRules = Callable[[Claim, FinishedRun], Awaitable[FinishedRun]]
"""Adds to a finished run what the rules of its schedule say about it. Called only if there are any."""

PlanHooks = Callable[[Claim, FinishedRun], FinishedRun]
"""Adds to a finished run what its hooks have to deliver."""

TakeStalled = Callable[[], timedelta]
"""Returns for how long the process stood still since the last call."""


async def no_wait(run_id: int) -> str:  # noqa: ARG001 - the shape of a wait
    """The default: runs leave nothing behind."""
    return ""


def can_always_start() -> bool:
    """The default, for a node that does not share its ledger."""
    return True


def no_stall() -> timedelta:
    """The default, for a loop without a `StallWatch`."""
    return timedelta(0)


def no_hooks(claim: Claim, finished: FinishedRun) -> FinishedRun:  # noqa: ARG001 - the shape of a plan
    """The default: there are no hooks."""
    return finished


def no_prefetch(claims: Sequence[Claim]) -> None:
    """The default: nothing to prepare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What an operator may choose for one node."""

    node_id: int
    max_concurrent: int = 100
    check_interval: timedelta = timedelta(seconds=1)
    catchup_rate: float = 10.0
    lease: timedelta = timedelta(seconds=30)
    gaps: tuple[Gap, ...] = ()
    first_reading: ClockReading | None = None
    """The clocks when the node registered. What changes before its first cycle is compared with it."""

    labels: frozenset[str] = frozenset()
    is_single_node: bool = True
    """Otherwise other nodes work while this one sleeps, and only a time without any live lease is a gap."""

    fleet_limit: int | None = None
    """The limit of active runs of all nodes together; None for no limit."""


@dataclass(slots=True)
class NodeParts:
    """The collaborators of a node. What is not given does nothing."""

    store: Store
    timer: Timer
    execute_run: ExecuteRun
    listener: EventListener = null_listener
    maintenance: Callable[[], Coroutine[None, None, None]] | None = None
    prefetch: PrefetchSpecs = no_prefetch
    wait_stopped: WaitStopped = no_wait
    shared: SharedStore | None = None
    on_renewed: OnLeaseRenewed = ignore_renewal
    has_leftovers: HasLeftovers = no_leftovers
    work: NodeWork | None = None
    estimate_price: PriceEstimate | None = None
    lost_reports: LostReports = NO_REPORTS
    evaluate_rules: EvaluateRules | None = None
    plan_hooks: PlanHooks = no_hooks
    outbox: OutboxSender | None = None
    remote: RemoteRuns | None = None
    on_stopping: Callable[[], Awaitable[None]] | None = None
    """Called at an orderly stop, before the last messages are sent."""


current_claim: ContextVar[Claim | None] = ContextVar("current_claim", default=None)
"""The claim that the current task belongs to: the task of a run, and whatever that starts."""


def log_task_failure(task: "asyncio.Task[None]") -> None:
    """Log at once what ends a node. Its other tasks end first, and that may take long."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.critical("node stops task=%s error=%r no new runs start", task.get_name(), error, exc_info=error)


class ActiveRun(NamedTuple):
    """A run of this node that has not ended."""

    claim: Claim
    task: asyncio.Task[None]
    since: datetime


@dataclass(slots=True)
class PendingCancel:
    """The outcome of a run that was cancelled. It `is_detached` when only what cannot be stopped is left of it."""

    outcome: Outcome
    is_detached: bool = False


_BEFORE_START = Unstarted("it was started")


def _cancelled_unstarted(claim: Claim, cancelled: Outcome, unstarted: Unstarted) -> Outcome:
    """Return the outcome of a run that was cancelled before anything of its target has started.

    Replaced by its next beat, its instant has not run: it is merged into the one that takes its place. It has run if
    this was not its first attempt.
    """
    if cancelled.error == REPLACED_BY_NEXT and claim.attempt == 1:
        return Outcome(status=RunStatus.SKIPPED, skip=MergedReason.CANCEL)
    return replace(cancelled, error=f"{cancelled.error}, before {unstarted.before}")


def _interrupted(unstarted: Unstarted | None) -> Outcome:
    """Return the outcome of a run that ends with its node, and say so if nothing of its target has started."""
    error = f"its node stopped before {unstarted.before}" if unstarted is not None else ""
    return Outcome(status=RunStatus.INTERRUPTED, error=error)


class Loop:
    """Claims and starts. One per node; all its state is in the store, except for its active runs."""

    def __init__(
        self,
        parts: NodeParts,
        settings: NodeSettings,
        can_start: CanStart = can_always_start,
        take_stalled: TakeStalled = no_stall,
        adopted: Sequence[RemoteRun] = (),
    ) -> None:
        self._parts = parts
        self._store, self._timer = parts.store, parts.timer
        self._settings = settings
        self._can_start = can_start
        self._take_stalled = take_stalled
        self._adopted = adopted
        self._listener = safe_listener(parts.listener)
        self._pacer = CatchupPacer(settings.catchup_rate)
        self._gaps = list(settings.gaps)
        self._last_reading = self._ledger_reading = settings.first_reading or self._timer.read_clocks()
        self._unwritten_step = timedelta(0)
        self._unwritten_gaps: list[Gap] = []
        self._wake_event = asyncio.Event()
        self._is_stopping = False
        self._is_hard_stopping = False
        self._was_full = False
        self._batch_limit = MAX_CLAIM_BATCH
        self._saturated: SaturatedTargets | None = None
        self._poll_at = self._timer.now()
        self._pending_cancels: dict[int, PendingCancel] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.lease_lost = asyncio.Event()
        self.completer = RunCompleter(
            parts.store, parts.timer, self.ledger_now, self._on_finished, self.lease_lost.set, parts.estimate_price
        )
        self.active_runs: dict[int, ActiveRun] = {}
        self.cycles = 0
        self.completed_cycles = 0
        """Cycles that have reached the ledger, or had no room to claim anything."""
        self.last_cycle_at: datetime | None = None
        self.interrupted_runs: set[int] = set()

    @property
    def node_id(self) -> int:
        return self._settings.node_id

    def ledger_now(self) -> datetime:
        """Return the time for writes beside the cycles: since the last cycle that was written, as BOOTTIME counts it.

        Only a cycle withdraws the outcomes that lie in the future of a clock that was set back. A write that read such
        a clock before the cycle decided as of that moment, and instants were settled a second time.
        """
        written = self._ledger_reading
        return written.wall + timedelta(seconds=self._timer.read_clocks().boottime - written.boottime)

    def wake(self) -> None:
        """Look now: something has changed."""
        self._wake_event.set()

    def stop(self) -> None:
        """Start nothing new from now on. Active runs continue."""
        self._is_stopping = True
        self._wake_event.set()
        if self._parts.remote is not None:
            self._parts.remote.detach_taken()

    def hard_stop(self) -> None:
        """Stop, and interrupt the active runs. Cancelling `run` instead would forget the claims of a cycle in progress.

        Results are then written in one last attempt, and no longer kept for a store that is unavailable.
        """
        self._is_hard_stopping = True
        self.stop()
        self.completer.drain_once()
        self._interrupt_runs()

    def runs_that_need_node(self) -> list[int]:
        """Return the active runs that end with this node: the others go on at an engine."""
        remote = self._parts.remote
        return [run_id for run_id in self.active_runs if remote is None or not remote.is_detached(run_id)]

    def _interrupt_runs(self) -> None:
        runs = self.runs_that_need_node()
        self.interrupted_runs.update(runs)
        for run_id in runs:
            self.active_runs[run_id].task.cancel()

    def cancel(self, run_id: int, reason: str, *, force: bool = False) -> bool:
        """Cancel one run of this node on request. False if it is not (or no longer) here.

        Its program is asked to end and killed after the kill grace; with `force`, at once.
        """
        active_run = self.active_runs.get(run_id)
        if active_run is None:
            return False
        if self._parts.remote is not None:
            self._parts.remote.cancelled[run_id] = reason
        if run_id not in self._pending_cancels:
            self._pending_cancels[run_id] = PendingCancel(Outcome(status=RunStatus.CANCELLED, error=reason))
            active_run.task.add_done_callback(lambda _: self._complete_unstarted(run_id))
            active_run.task.cancel()
        if force:
            # In the next step of the loop: of two cancels in one step, a task sees one.
            asyncio.get_running_loop().call_soon(self._force_cancel, run_id)
        return True

    def _force_cancel(self, run_id: int) -> None:
        """Cancel again, except for what is left in a thread: that cannot be stopped, and its slot stays taken."""
        pending_cancel, active_run = self._pending_cancels.get(run_id), self.active_runs.get(run_id)
        if pending_cancel is not None and active_run is not None and not pending_cancel.is_detached:
            active_run.task.cancel()

    def _complete_unstarted(self, run_id: int) -> None:
        """A task that is cancelled before its first step cannot complete its run: that would keep its slot for ever."""
        active_run = self.active_runs.pop(run_id, None)
        if active_run is not None:
            cancelled = self._pending_cancels.pop(run_id).outcome
            outcome = _cancelled_unstarted(active_run.claim, cancelled, _BEFORE_START)
            self.completer.add(FinishedRun(run_id, None, outcome))

    def cancel_schedule_runs(self, schedule_id: int, reason: str, *, force: bool = False) -> list[int]:
        """Cancel all runs of a schedule, and return their ids."""
        runs = [run_id for run_id, each in self.active_runs.items() if each.claim.schedule_id == schedule_id]
        return [run_id for run_id in runs if self.cancel(run_id, reason, force=force)]

    async def run(self) -> None:
        """Run until stop(), then until the last result is written. Cancelling it interrupts the active runs."""
        async with asyncio.TaskGroup() as tasks:
            completer_task = tasks.create_task(self.completer.run(), name="recorder")
            completer_task.add_done_callback(log_task_failure)
            try:
                self._tasks = tasks
                if self._parts.remote is not None:
                    self._parts.remote.begin()
                self.adopt(self._adopted)
                await self._claim_until_stopped(tasks)
                if self._is_hard_stopping:
                    self._interrupt_runs()  # what the last cycle has started meanwhile
                await self._wait_idle()
            finally:
                # If cancelled: the group would cancel the completer together with the runs, and they would stay open
                # in the ledger until the next start. So they are interrupted here.
                self._interrupt_runs()
                self.completer.drain_once()
                await self._wait_idle()
                completer_task.cancel()

    async def _claim_until_stopped(self, tasks: asyncio.TaskGroup) -> None:
        while not self._is_stopping:
            # Cleared before the cycle, so that a wake between the cycle and the sleep is not lost.
            self._wake_event.clear()
            result = await self.run_cycle(tasks)
            if not self._is_stopping:
                poll_at = self._timer.now() + self._settings.check_interval
                self._poll_at = poll_at if result.wake_at is None else min(poll_at, result.wake_at)
                await self._timer.sleep_until(self._poll_at, self._wake_event)

    async def run_cycle(self, tasks: asyncio.TaskGroup) -> ClaimResult:
        """Claim what is due, and start it."""
        self._tasks = tasks
        self.cycles += 1
        # One reading for both: between two, the clock could be set.
        reading = self._timer.read_clocks()
        self.last_cycle_at = now = reading.wall
        self._detect_clock_change(reading)  # also while it is full, which is not a time without a node
        free_slots = self._free_slots()
        self._was_full = free_slots <= 0
        if self._was_full:
            self.completed_cycles += 1
            return ClaimResult()  # a full node leaves due work to others, and looks again when a run ends
        try:
            result = await self._write_claim(reading, self._claim_context(free_slots))
        except StoreUnavailable as error:
            log.warning("claim failed error=%s %s retry in %s", error, error.hint, self._settings.check_interval)
            return ClaimResult()
        except ClaimLost:
            self.lease_lost.set()
            return ClaimResult()
        except BatchRefused as refused:
            return await self._bisect_batch(now, refused.error)
        self.completed_cycles += 1
        self._batch_limit, self._saturated = MAX_CLAIM_BATCH, result.saturated
        self._was_full = result.is_full
        failpoint(Failpoint.AFTER_CLAIM)
        await self._start(now, result, tasks)
        return result

    async def _write_claim(self, reading: ClockReading, context: ClaimContext) -> ClaimResult:
        """Write the claim together with how the clock was set. If it fails, nothing of both is written."""
        now, step, new_gaps = reading.wall, self._unwritten_step, tuple(self._unwritten_gaps)
        before = self._ledger_reading

        def claim(tx: Transaction) -> ClaimResult:
            if step:
                move_clock_back(tx, now, step)
            for gap in new_gaps:
                tx.add_gap(gap)
            self._ledger_reading = reading  # here, because the next write may share this transaction
            return claim_due(tx, now, context)

        try:
            result = await write_batch(self._store, claim)
        except (StoreUnavailable, ClaimLost, BatchRefused):
            self._ledger_reading = before
            raise
        self._unwritten_step, self._unwritten_gaps = timedelta(0), []
        return result

    def _claim_context(self, free_slots: int) -> ClaimContext:
        settings = self._settings
        return ClaimContext(
            settings.node_id,
            free_slots,
            self._pacer,
            gaps=tuple(self._gaps),
            batch_limit=self._batch_limit,
            saturated=self._saturated,
            labels=settings.labels,
            fleet_limit=settings.fleet_limit,
        )

    def claim_context(self) -> ClaimContext:
        """Return what this node may start beside its cycles: nothing, once it stops."""
        free_slots = 0 if self._is_stopping else self._free_slots()
        return self._claim_context(free_slots)

    def _free_slots(self) -> int:
        """Runs that happen elsewhere use nothing of this node."""
        remote_count = 0 if self._parts.remote is None else len(self._parts.remote.followed)
        return self._settings.max_concurrent - len(self.active_runs) + remote_count

    def adopt(self, runs: Sequence[RemoteRun]) -> None:
        """Follow runs of dead nodes that go on elsewhere."""
        remote = self._parts.remote
        if remote is None or not runs:
            return
        log.info("remote runs adopted runs=%s", len(runs))
        for each in runs:
            remote.adopted[each.run_id] = each
        self.start_more([load_claim(each.claim) for each in runs])

    def start_more(self, claims: Sequence[Claim]) -> None:
        """Start runs that an active run has added to its beat. They are in the ledger already."""
        now = self._timer.now()
        for each in claims:
            if self._tasks is None or self._is_hard_stopping:
                self.completer.add(FinishedRun(each.run_id, None, _interrupted(_BEFORE_START)))
                continue
            task = self._tasks.create_task(self._run(each), name=f"run {each.label}")
            self.active_runs[each.run_id] = ActiveRun(each, task, now)
            self._listener(RunStarted(now, each.label, each.run_id, each.source, each.due_at, each.attempt))

    async def _start(self, now: datetime, result: ClaimResult, tasks: asyncio.TaskGroup) -> None:
        prefetching = self._parts.prefetch(result.claims) if result.claims else None
        if prefetching is not None:
            await prefetching
        for each in result.claims:
            task = tasks.create_task(self._run(each), name=f"run {each.label}")
            self.active_runs[each.run_id] = ActiveRun(each, task, now)
        # After the starts: a pending beat may start in the same cycle as the next one, which then replaces it.
        for schedule_id in result.schedules_to_cancel:
            self.cancel_schedule_runs(schedule_id, REPLACED_BY_NEXT)
        self._report_quarantined(now, result.quarantined)
        for hold in result.ended_holds:
            log.info("account released account=%s model=%s", hold.account, hold.model or "all")
            self._listener(AccountReleased(now, hold.account, hold.model, ""))
        if self._listener is not null_listener:  # else thousands of values a second would be built for no reader
            self._publish_cycle(now, result)

    def _publish_cycle(self, now: datetime, result: ClaimResult) -> None:
        """Publish every start and every beat that did not start, after it was written."""
        for claim in result.claims:
            self._listener(RunStarted(now, claim.label, claim.run_id, claim.source, claim.due_at, claim.attempt))
        if not result.settled:
            return
        # The oldest run of each target and schedule: it has the slot that a beat waits for, unless another node has it.
        blocking_runs: dict[tuple[str, int], tuple[int, datetime]] = {}
        for claim, _, since in self.active_runs.values():
            blocking_runs.setdefault((SkipReason.AT_CAPACITY, claim.target_id), (claim.run_id, since))
            blocking_runs.setdefault((SkipReason.ALREADY_RUNNING, claim.schedule_id), (claim.run_id, since))
        for label, beat in result.settled:
            holder_id = beat.target_id if beat.reason == SkipReason.AT_CAPACITY else beat.schedule_id
            held_by, held_since = blocking_runs.get((beat.reason, holder_id), (None, None))
            self._listener(
                BeatSettled(
                    now,
                    label,
                    beat.outcome,
                    beat.reason,
                    beat.due_at,
                    beat.last_due_at,
                    beat.number,
                    held_by,
                    held_since,
                )
            )

    async def _bisect_batch(self, now: datetime, error: Exception) -> ClaimResult:
        """Halve the next batch until the bad schedule is alone: then put it in quarantine, and continue."""
        log.error("claim could not be written most=%s error=%r the next one is smaller", self._batch_limit, error)
        is_single_item = self._batch_limit == 1
        self._batch_limit, self._saturated = max(1, self._batch_limit // 2), None
        if not is_single_item:
            return ClaimResult(wake_at=now)
        try:
            quarantined = await self._store.write(lambda tx: quarantine_first_due(tx, now, error))
        except StoreUnavailable as store_error:
            log.warning("quarantine not written error=%s retry in %s", store_error, self._settings.check_interval)
            return ClaimResult()
        except ClaimLost:
            self.lease_lost.set()
            return ClaimResult()
        if quarantined is None:
            # Nothing is due, and still it fails. A node that looked again at once logged 2,400 such lines a second.
            return ClaimResult()
        self._report_quarantined(now, quarantined)
        return ClaimResult(wake_at=now)

    def _detect_clock_change(self, reading: ClockReading) -> None:
        """Note the time that was lost since the last cycle, or by how much the clock was set back.

        Both are kept until they are written: the store may be unavailable just now.
        """
        gap = detect_gap(self._last_reading, reading, self._take_stalled())
        step = detect_step_back(self._last_reading, reading)
        self._last_reading = reading
        if step:
            self._unwritten_step += step
            self._gaps = cut_gaps(self._gaps, reading.wall)
            self._unwritten_gaps = cut_gaps(self._unwritten_gaps, reading.wall)
        if gap is not None and gap.from_at < reading.wall and self._settings.is_single_node:
            self._gaps.append(gap)
            self._unwritten_gaps.append(gap)
            self._listener(GapDetected(reading.wall, gap))

    async def _run(self, claim: Claim) -> None:
        current_claim.set(claim)
        try:
            self._require_lease()
            finished = await self._parts.execute_run(claim)
            await self._complete(claim, finished)
        except RunDetached:
            self.interrupted_runs.discard(claim.run_id)
            log.info("run continues elsewhere run=%s the next node follows it", claim.run_id)
        except asyncio.CancelledError as error:
            if claim.run_id not in self._pending_cancels:
                outcome = add_report(_interrupted(find_unstarted(error)), attached_report(error))
                interrupted = FinishedRun(claim.run_id, None, outcome)
                self.completer.add(error.finished if isinstance(error, CancelledAfterTimeout) else interrupted)
                raise
            if (unstarted := find_unstarted(error)) is not None:
                pending_cancel = self._pending_cancels[claim.run_id]
                pending_cancel.outcome = _cancelled_unstarted(claim, pending_cancel.outcome, unstarted)
            await self._complete_cancelled(claim, attached_report(error))
        finally:
            self._pending_cancels.pop(claim.run_id, None)
            if self._parts.remote is not None:
                self._parts.remote.cancelled.pop(claim.run_id, None)
            del self.active_runs[claim.run_id]

    async def _complete(self, claim: Claim, finished: FinishedRun) -> None:
        """Evaluate the rules of a run that has ended, and record it. Cancelled meanwhile, it ended without them."""
        if claim.plan.policies.adapt and self._parts.evaluate_rules is not None:
            with suppress(asyncio.CancelledError):
                finished = await self._parts.evaluate_rules(claim, finished)
        self.completer.add(self._parts.plan_hooks(claim, finished))

    def is_executing(self, claim: Claim | None) -> bool:
        """Whether this is the claim of one of the active runs."""
        active_run = self.active_runs.get(claim.run_id) if claim is not None else None
        return active_run is not None and active_run.claim is claim

    def _require_lease(self) -> None:
        """A run whose lease is over may already run on another node."""
        if not self._can_start():
            raise asyncio.CancelledError(_BEFORE_START)

    async def _complete_cancelled(self, claim: Claim, report: AgentReport | None) -> None:
        """Record what an agent has reported until then. A function in a thread keeps its slot until it returns."""
        run_id = claim.run_id
        pending_cancel = self._pending_cancels[run_id]
        pending_cancel.is_detached = True
        survivors = ""
        try:
            survivors = await self._parts.wait_stopped(run_id)
        finally:
            # Also if the node is stopped meanwhile: it does not wait for what cannot be stopped.
            outcome = pending_cancel.outcome
            error = f"{outcome.error}; {survivors}" if survivors else outcome.error
            await self._complete(claim, FinishedRun(run_id, None, add_report(replace(outcome, error=error), report)))

    async def _wait_idle(self) -> None:
        while self.active_runs:
            done, _ = await asyncio.wait([each.task for each in self.active_runs.values()])
            for run_id in [run_id for run_id, each in self.active_runs.items() if each.task in done]:
                # Cancelled before its first step, it could not complete its run.
                del self.active_runs[run_id]
                self.completer.add(FinishedRun(run_id, None, _interrupted(_BEFORE_START)))
        await self.completer.wait_drained()

    def on_rescue(self, finished: CompletionResult) -> None:
        """Publish runs of dead nodes that were rescued, and look again: their slots are free."""
        self.adopt(finished.adopted)
        if finished.completed:
            self._on_finished(finished)
            self.wake()

    def _on_finished(self, finished: CompletionResult) -> None:
        """Look again if the completion has made something due before the loop would wake anyway."""
        is_sooner = finished.wake_at is not None and finished.wake_at < self._poll_at
        if is_sooner or self._was_full:
            self._wake_event.set()
        if finished.has_work and self._parts.work is not None:
            self._parts.work.settler.wake()
        if finished.has_deliveries and self._parts.outbox is not None:
            self._parts.outbox.wake()
        for event in finished.completed:
            self._listener(event)
        for fired in finished.fired_rules:
            self._listener(fired)
        for hold, older_nodes in finished.unheld:
            log.warning(
                "account not held account=%s run=%s waits alone until=%s as these would not wait: %s; upgrade them",
                hold.account,
                hold.run_id,
                format_timestamp(hold.until),
                older_nodes,
            )
        for hold in finished.new_holds:
            log.info(
                "account held account=%s model=%s until=%s run=%s its beats wait until then",
                hold.account,
                hold.model or "all",
                format_timestamp(hold.until),
                hold.run_id,
            )
            self._listener(AccountHeld(finished.at, hold.account, hold.model, hold.until, hold.run_id, hold.text))
        self._report_quarantined(finished.at, finished.quarantined)

    def _report_quarantined(self, now: datetime, quarantined: list[QuarantinedSchedule]) -> None:
        for each in quarantined:
            log.error("schedule quarantined schedule=%s reason=%s it does not run until it is edited or reset", *each)
            self._listener(ScheduleQuarantined(now, *each))
