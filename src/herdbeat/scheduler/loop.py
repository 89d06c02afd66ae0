"""The loop: sleep until something is due, claim it, start it, and never wait for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.beat import Gap, SkipReason
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.events import (
    BeatSettled,
    EventListener,
    GapDetected,
    RunFinished,
    RunStarted,
    ScheduleQuarantined,
    null_listener,
    safe_listener,
)
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.scheduler.backpressure import SaturatedTargets
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import MAX_CLAIM_BATCH, ClaimContext, ClaimResult, claim_due
from herdbeat.scheduler.clock_drift import detect_gap, has_clock_moved_back
from herdbeat.scheduler.complete import CompletionResult, RunCompleter
from herdbeat.scheduler.evaluate import REPLACED_BY_NEXT
from herdbeat.scheduler.quarantine import QuarantinedSchedule, quarantine_first_due
from herdbeat.scheduler.timers import Timer
from herdbeat.store.base import FinishedRun, NewBeat, Store, Transaction

# The runs that a node holds right now, and which of them is in the way of a beat.


class ActiveRun(NamedTuple):
    """A run that this node holds."""

    claim: Claim
    task: asyncio.Task[None]
    since: datetime


@dataclass(slots=True)
class PendingCancel:
    """How a run ends that was told to. It is `out` when only what cannot be stopped is left of it."""

    outcome: Outcome
    is_detached: bool = False


class BlockingRun(NamedTuple):
    """A run that is in the way of a beat; nothing if none is, or it is another node's."""

    run_id: int | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class BlockingRuns:
    """The oldest run of each target and of each schedule."""

    targets: dict[int, BlockingRun]
    schedules: dict[int, BlockingRun]

    @classmethod
    def from_runs(cls, running: Iterable[ActiveRun]) -> "BlockingRuns":
        blocking_runs = cls({}, {})
        for claim, _, since in running:
            blocking_run = BlockingRun(claim.run_id, since)
            blocking_runs.targets.setdefault(claim.target_id, blocking_run)
            blocking_runs.schedules.setdefault(claim.schedule_id, blocking_run)
        return blocking_runs

    def blocking(self, beat: NewBeat) -> BlockingRun:
        """Who has the place that this beat did not get."""
        if beat.reason == SkipReason.AT_CAPACITY:
            return self.targets.get(beat.target_id, BlockingRun())
        if beat.reason == SkipReason.ALREADY_RUNNING:
            return self.schedules.get(beat.schedule_id, BlockingRun())
        return BlockingRun()


# What a node tells those who listen: every start, end and skip, once, and only when it is written down.


class EventPublisher:
    """Makes events of what the ledger was told. A listener that fails harms nobody."""

    def __init__(self, listener: EventListener) -> None:
        self._listener = safe_listener(listener)

    def started(self, now: datetime, claims: Sequence[Claim]) -> None:
        if self._listener is null_listener:
            return  # thousands of values a second that nobody would look at
        for each in claims:
            self._listener(RunStarted(now, each.label, each.run_id, each.source, each.due_at, each.attempt))

    def settled(self, now: datetime, beats: Sequence[tuple[str, NewBeat]], running: Collection[ActiveRun]) -> None:
        """`running` has the runs that may be in the way of what has to wait."""
        if self._listener is null_listener or not beats:
            return
        blocking_runs = BlockingRuns.from_runs(running)
        for label, beat in beats:
            what = (beat.outcome, beat.reason, beat.due_at, beat.last_due_at, beat.number)
            self._listener(BeatSettled(now, label, *what, *blocking_runs.blocking(beat)))

    def finished(self, finished: CompletionResult) -> None:
        for each in finished.completed:
            self._listener(RunFinished(finished.at, *each))

    def quarantined(self, now: datetime, schedules: Sequence[QuarantinedSchedule]) -> None:
        for each in schedules:
            self._listener(ScheduleQuarantined(now, *each))

    def time_lost(self, now: datetime, gap: Gap) -> None:
        self._listener(GapDetected(now, gap))


log = logging.getLogger(__name__)

ExecuteRun = Callable[[Claim], Awaitable[FinishedRun]]
WaitStopped = Callable[[int], Awaitable[None]]
"""Returns once nothing of a run is going on any more, of which perform has returned already."""

PrefetchSpecs = Callable[[Sequence[Claim]], Awaitable[None] | None]
"""Told what a turn has claimed, before the first of it is performed."""

CanStart = Callable[[], bool]
"""Asked right before a run is started, and after its claim: whether the node still holds what it has claimed."""


async def no_wait(run_id: int) -> None:
    """For runs that leave nothing behind."""


def can_always_start() -> bool:
    """For who has the ledger alone."""
    return True


def no_prefetch(claims: Sequence[Claim]) -> None:
    """For who needs no preparation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What an operator may choose for one node."""

    node_id: int
    max_concurrent: int = 100
    check_interval: timedelta = timedelta(seconds=1)
    catchup_rate: float = 10.0
    lease: timedelta = timedelta(seconds=30)
    gaps: tuple[Gap, ...] = ()
    labels: frozenset[str] = frozenset()
    is_single_node: bool = True
    """Else only a lease that nobody held is a gap, and not what this node has slept through."""

    fleet_limit: int | None = None
    """How many runs all nodes together may have; None for any number."""


class Loop:
    """Claims and starts. One per node; everything it knows is in the store."""

    def __init__(
        self,
        store: Store,
        timer: Timer,
        execute_run: ExecuteRun,
        settings: NodeSettings,
        listener: EventListener = null_listener,
        prefetch: PrefetchSpecs = no_prefetch,
        wait_stopped: WaitStopped = no_wait,
        can_start: CanStart = can_always_start,
    ) -> None:
        self._store = store
        self._can_start = can_start
        self._timer = timer
        self._execute_run = execute_run
        self._prefetch = prefetch
        self._wait_stopped = wait_stopped
        self._settings = settings
        self._publisher = EventPublisher(listener)
        self._pacer = CatchupPacer(settings.catchup_rate)
        self._gaps = list(settings.gaps)
        self._last_reading = timer.pulse()
        self._wake_event = asyncio.Event()
        self._is_stopping = False
        self._is_hard_stopping = False
        self._was_full = False
        self._batch_limit = MAX_CLAIM_BATCH
        self._saturated: SaturatedTargets | None = None
        self._poll_at = timer.now()
        self._pending_cancels: dict[int, PendingCancel] = {}
        self.lease_lost = asyncio.Event()
        self.completer = RunCompleter(store, timer, self._on_finished, self.lease_lost.set)
        self.running: dict[int, ActiveRun] = {}
        self.cycles = 0
        self.last_cycle_at: datetime | None = None
        self.interrupted_runs: set[int] = set()

    @property
    def node_id(self) -> int:
        return self._settings.node_id

    def wake(self) -> None:
        """Look now: something was changed."""
        self._wake_event.set()

    def stop(self) -> None:
        """Start nothing new from now on. Runs that are going go on."""
        self._is_stopping = True
        self._wake_event.set()

    def hard_stop(self) -> None:
        """Stop, and end what runs. Not by cancelling `run`: in the middle of a turn, that would forget its claims.

        Results are tried once more then, and no longer kept for a store that is away.
        """
        self._is_hard_stopping = True
        self.stop()
        self.completer.drain_once()
        self._interrupt_runs()

    def _interrupt_runs(self) -> None:
        self.interrupted_runs |= self.running.keys()
        for each in self.running.values():
            each.task.cancel()

    def cancel(self, run_id: int, reason: str, *, force: bool = False) -> bool:
        """Stop one run of this node, on somebody's word. False if it is not (or no longer) here.

        Its program is asked to end and killed after the kill grace; told a second time, as `force` does, at once.
        """
        running = self.running.get(run_id)
        if running is None:
            return False
        if run_id not in self._pending_cancels:
            self._pending_cancels[run_id] = PendingCancel(Outcome(status=RunStatus.CANCELLED, error=reason))
            running.task.add_done_callback(lambda _: self._complete_unstarted(run_id))
            running.task.cancel()
        if force:
            # In the next step of the loop: told twice in one, a task hears it once.
            asyncio.get_running_loop().call_soon(self._force_cancel, run_id)
        return True

    def _force_cancel(self, run_id: int) -> None:
        """Not to what is left in a thread: nothing can stop that, and its place must not be given away."""
        pending_cancel, running = self._pending_cancels.get(run_id), self.running.get(run_id)
        if pending_cancel is not None and running is not None and not pending_cancel.is_detached:
            running.task.cancel()

    def _complete_unstarted(self, run_id: int) -> None:
        """Cancelled before its first step, a run could not say so itself, and would keep its place for ever."""
        if self.running.pop(run_id, None) is not None:
            self.completer.add(FinishedRun(run_id, None, self._pending_cancels.pop(run_id).outcome))

    def cancel_schedule_runs(self, schedule_id: int, reason: str, *, force: bool = False) -> list[int]:
        """The same for all runs of a schedule. Which those were."""
        runs = [run_id for run_id, each in self.running.items() if each.claim.schedule_id == schedule_id]
        return [run_id for run_id in runs if self.cancel(run_id, reason, force=force)]

    async def run(self) -> None:
        """Until stop(), then until the last run has ended and is written down. Cancelled, the runs are too."""
        async with asyncio.TaskGroup() as tasks:
            completer_task = tasks.create_task(self.completer.run(), name="recorder")
            try:
                await self._claim_until_stopped(tasks)
                if self._is_hard_stopping:
                    self._interrupt_runs()  # what the last turn has started meanwhile
                await self._wait_idle()
            finally:
                # When cancelled: runs are cut off here and not by the group, which would end the recorder with them,
                # and they would stay open in the ledger until the next start.
                self._interrupt_runs()
                self.completer.drain_once()
                await self._wait_idle()
                completer_task.cancel()

    async def _claim_until_stopped(self, tasks: asyncio.TaskGroup) -> None:
        while not self._is_stopping:
            # Cleared before looking, so that a wake between looking and sleeping is not lost.
            self._wake_event.clear()
            result = await self.run_cycle(tasks)
            if not self._is_stopping:
                self._poll_at = self._next_poll_at(result)
                await self._timer.sleep_until(self._poll_at, self._wake_event)

    async def run_cycle(self, tasks: asyncio.TaskGroup) -> ClaimResult:
        """Claim what is due and start it."""
        self.cycles += 1
        self.last_cycle_at = now = self._timer.now()
        free_slots = self._settings.max_concurrent - len(self.running)
        self._was_full = free_slots <= 0
        if self._was_full:
            return ClaimResult()  # a full node leaves due work to others, and looks again when a run has ended
        gap, moved_back = self._detect_clock_change(now)
        context = self._claim_context(free_slots)
        try:
            result = await self._store.write(lambda tx: _run_claim_cycle(tx, now, context, gap, moved_back=moved_back))
        except StoreUnavailable as error:
            log.warning("nothing claimed error=%s %s next look in %s", error, error.hint, self._settings.check_interval)
            return ClaimResult()
        except ClaimLost:
            self.lease_lost.set()
            return ClaimResult()
        except Exception as error:  # noqa: BLE001 - what cannot be written must not stop what can
            return await self._bisect_batch(now, error)
        self._batch_limit, self._saturated = MAX_CLAIM_BATCH, result.saturated
        self._was_full = result.is_full
        failpoint(Failpoint.AFTER_CLAIM)
        await self._start(now, result, tasks)
        return result

    def _claim_context(self, free_slots: int) -> ClaimContext:
        known, settings = tuple(self._gaps), self._settings
        return ClaimContext(
            settings.node_id,
            free_slots,
            self._pacer,
            known,
            self._batch_limit,
            self._saturated,
            settings.labels,
            settings.fleet_limit,
        )

    async def _start(self, now: datetime, result: ClaimResult, tasks: asyncio.TaskGroup) -> None:
        prefetching = self._prefetch(result.claims) if result.claims else None
        if prefetching is not None:
            await prefetching
        for each in result.claims:
            task = tasks.create_task(self._run(each), name=f"run {each.label}")
            self.running[each.run_id] = ActiveRun(each, task, now)
        # After the starts: a beat that had waited and is taken up in the very turn of its successor is in its way, too.
        for schedule_id in result.schedules_to_cancel:
            self.cancel_schedule_runs(schedule_id, REPLACED_BY_NEXT)
        self._report_quarantined(now, result.quarantined)
        self._publisher.started(now, result.claims)
        self._publisher.settled(now, result.settled, self.running.values())

    async def _bisect_batch(self, now: datetime, error: Exception) -> ClaimResult:
        """Half as much in the next turn, until the bad one is alone: then it is set aside, and all goes on."""
        log.error("turn cannot be written most=%s error=%r the next one takes less", self._batch_limit, error)
        is_alone, self._batch_limit, self._saturated = self._batch_limit == 1, max(1, self._batch_limit // 2), None
        if not is_alone:
            return ClaimResult(wake_at=now)
        try:
            quarantined = await self._store.write(lambda tx: quarantine_first_due(tx, now, error))
        except StoreUnavailable as away:
            log.warning("nothing set aside error=%s next look in %s", away, self._settings.check_interval)
            return ClaimResult()
        if quarantined is None:
            # Nothing is due, and still it fails. Looking again at once, a node wrote 2,400 such lines a second.
            return ClaimResult()
        self._report_quarantined(now, quarantined)
        return ClaimResult(wake_at=now)

    def _detect_clock_change(self, now: datetime) -> tuple[Gap | None, bool]:
        """Has time been lost since the last look, or the clock been put back?"""
        reading = self._timer.pulse()
        max_silence = max(self._settings.lease / 3, 3 * self._settings.check_interval)
        gap, moved_back = (
            detect_gap(self._last_reading, reading, max_silence),
            has_clock_moved_back(self._last_reading, reading),
        )
        self._last_reading = reading
        if not self._settings.is_single_node:
            return None, moved_back
        if gap is not None:
            self._gaps.append(gap)
            self._publisher.time_lost(now, gap)
        return gap, moved_back

    async def _run(self, claim: Claim) -> None:
        try:
            self._require_lease()
            self.completer.add(await self._execute_run(claim))
        except asyncio.CancelledError:
            if claim.run_id not in self._pending_cancels:
                self.completer.add(FinishedRun(claim.run_id, None, Outcome(status=RunStatus.INTERRUPTED)))
                raise
            await self._complete_cancelled(claim.run_id)
        finally:
            self._pending_cancels.pop(claim.run_id, None)
            del self.running[claim.run_id]

    def _require_lease(self) -> None:
        """A run whose lease is over is not ours to start any more."""
        if not self._can_start():
            raise asyncio.CancelledError

    async def _complete_cancelled(self, run_id: int) -> None:
        """A function in a thread cannot be stopped: its place stays taken until it really is over."""
        pending_cancel = self._pending_cancels[run_id]
        pending_cancel.is_detached = True
        try:
            await self._wait_stopped(run_id)
        finally:
            # Also when the node is cut off meanwhile: it does not wait for what cannot be stopped.
            self.completer.add(FinishedRun(run_id, None, pending_cancel.outcome))

    async def _wait_idle(self) -> None:
        while self.running:
            done, _ = await asyncio.wait([each.task for each in self.running.values()])
            for run_id in [run_id for run_id, each in self.running.items() if each.task in done]:
                # Cut off before its first step, it could not even say so itself.
                del self.running[run_id]
                self.completer.add(FinishedRun(run_id, None, Outcome(status=RunStatus.INTERRUPTED)))
        await self.completer.wait_drained()

    def _next_poll_at(self, result: ClaimResult) -> datetime:
        poll = self._timer.now() + self._settings.check_interval
        return poll if result.wake_at is None else min(poll, result.wake_at)

    def on_rescue(self, finished: CompletionResult) -> None:
        """Runs of others were closed by a sweep: what they held is free, and what they were at may go on."""
        if finished.completed:
            self._on_finished(finished)
            self.wake()

    def _on_finished(self, finished: CompletionResult) -> None:
        """Look again if the finish has made something due before the loop would wake anyway."""
        is_sooner = finished.wake_at is not None and finished.wake_at < self._poll_at
        if is_sooner or self._was_full:
            self._wake_event.set()
        self._publisher.finished(finished)
        self._report_quarantined(finished.at, finished.quarantined)

    def _report_quarantined(self, now: datetime, quarantined: list[QuarantinedSchedule]) -> None:
        for each in quarantined:
            log.error("schedule quarantined schedule=%s reason=%s it rests until it is edited", *each)
        self._publisher.quarantined(now, quarantined)


def _run_claim_cycle(
    tx: Transaction, now: datetime, context: ClaimContext, gap: Gap | None, *, moved_back: bool
) -> ClaimResult:
    if gap is not None:
        tx.add_gap(gap)
    if moved_back:
        tx.schedule_requeue_future(now)
    return claim_due(tx, now, context)
