"""The loop: sleep until something is due, claim it, start it, and never wait for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.crashpoints import CrashPoint, pass_by
from herdbeat.domain.claim import Claim
from herdbeat.domain.gap import Gap
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.events import Listener, nobody
from herdbeat.scheduler.crowd import Crowd
from herdbeat.scheduler.finish import Finished
from herdbeat.scheduler.overlap import REPLACED
from herdbeat.scheduler.pulse import lost_time, went_back
from herdbeat.scheduler.quarantine import Quarantined, set_aside
from herdbeat.scheduler.record import Recorder
from herdbeat.scheduler.room import Pacer
from herdbeat.scheduler.running import Ending, Running
from herdbeat.scheduler.telling import Teller
from herdbeat.scheduler.timer import Timer
from herdbeat.scheduler.turn import BATCH, Claimed, Node, claim
from herdbeat.store.base import FinishedRun, Store, Transaction

log = logging.getLogger(__name__)

Perform = Callable[[Claim], Awaitable[FinishedRun]]
Ended = Callable[[int], Awaitable[None]]
"""Returns once nothing of a run is going on any more, of which perform has returned already."""

Prepare = Callable[[Sequence[Claim]], Awaitable[None] | None]
"""Told what a turn has claimed, before the first of it is performed."""

MayStart = Callable[[], bool]
"""Asked right before a run is started, and after its claim: whether the node still holds what it has claimed."""


async def at_once(run_id: int) -> None:
    """For runs that leave nothing behind."""


def always() -> bool:
    """For who has the ledger alone."""
    return True


def as_it_is(claims: Sequence[Claim]) -> None:
    """For who needs no preparation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may choose for one node."""

    node_id: int
    max_concurrent: int = 100
    check_interval: timedelta = timedelta(seconds=1)
    catchup_rate: float = 10.0
    lease: timedelta = timedelta(seconds=30)
    gaps: tuple[Gap, ...] = ()
    labels: frozenset[str] = frozenset()
    is_alone: bool = True
    """Else only a lease that nobody held is a gap, and not what this node has slept through."""

    fleet_limit: int | None = None
    """How many runs all nodes together may have; None for any number."""


class Loop:
    """Claims and starts. One per node; everything it knows is in the store."""

    def __init__(
        self,
        store: Store,
        timer: Timer,
        perform: Perform,
        settings: Settings,
        listener: Listener = nobody,
        prepare: Prepare = as_it_is,
        ended: Ended = at_once,
        may_start: MayStart = always,
    ) -> None:
        self._store = store
        self._may_start = may_start
        self._timer = timer
        self._perform = perform
        self._prepare = prepare
        self._ended = ended
        self._settings = settings
        self._tell = Teller(listener)
        self._pacer = Pacer(settings.catchup_rate)
        self._gaps = list(settings.gaps)
        self._pulse = timer.pulse()
        self._woken = asyncio.Event()
        self._stopping = False
        self._is_cut_off = False
        self._was_full = False
        self._most = BATCH
        self._crowd: Crowd | None = None
        self._look_at = timer.now()
        self._endings: dict[int, Ending] = {}
        self.is_lost = asyncio.Event()
        self.recorder = Recorder(store, timer, self._on_finished, self.is_lost.set)
        self.running: dict[int, Running] = {}
        self.turns = 0
        self.looked_at: datetime | None = None
        self.cut_off_runs: set[int] = set()

    @property
    def node_id(self) -> int:
        return self._settings.node_id

    def wake(self) -> None:
        """Look now: something was changed."""
        self._woken.set()

    def stop(self) -> None:
        """Start nothing new from now on. Runs that are going go on."""
        self._stopping = True
        self._woken.set()

    def cut_off(self) -> None:
        """Stop, and end what runs. Not by cancelling `run`: in the middle of a turn, that would forget its claims.

        Results are tried once more then, and no longer kept for a store that is away.
        """
        self._is_cut_off = True
        self.stop()
        self.recorder.last_call()
        self._end_runs()

    def _end_runs(self) -> None:
        self.cut_off_runs |= self.running.keys()
        for each in self.running.values():
            each.task.cancel()

    def cancel(self, run_id: int, why: str, *, force: bool = False) -> bool:
        """Stop one run of this node, on somebody's word. False if it is not (or no longer) here.

        Its program is asked to end and killed after the kill grace; told a second time, as `force` does, at once.
        """
        running = self.running.get(run_id)
        if running is None:
            return False
        if run_id not in self._endings:
            self._endings[run_id] = Ending(Outcome(status=RunStatus.CANCELLED, error=why))
            running.task.add_done_callback(lambda _: self._close_unstarted(run_id))
            running.task.cancel()
        if force:
            # In the next step of the loop: told twice in one, a task hears it once.
            asyncio.get_running_loop().call_soon(self._insist, run_id)
        return True

    def _insist(self, run_id: int) -> None:
        """Not to what is left in a thread: nothing can stop that, and its place must not be given away."""
        ending, running = self._endings.get(run_id), self.running.get(run_id)
        if ending is not None and running is not None and not ending.is_out:
            running.task.cancel()

    def _close_unstarted(self, run_id: int) -> None:
        """Cancelled before its first step, a run could not say so itself, and would keep its place for ever."""
        if self.running.pop(run_id, None) is not None:
            self.recorder.add(FinishedRun(run_id, None, self._endings.pop(run_id).outcome))

    def cancel_runs(self, schedule_id: int, why: str, *, force: bool = False) -> list[int]:
        """The same for all runs of a schedule. Which those were."""
        runs = [run_id for run_id, each in self.running.items() if each.claim.schedule_id == schedule_id]
        return [run_id for run_id in runs if self.cancel(run_id, why, force=force)]

    async def run(self) -> None:
        """Until stop(), then until the last run has ended and is written down. Cancelled, the runs are too."""
        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(self.recorder.run(), name="recorder")
            try:
                await self._claim_until_stopped(tasks)
                if self._is_cut_off:
                    self._end_runs()  # what the last turn has started meanwhile
                await self._until_idle()
            finally:
                # When cancelled: runs are cut off here and not by the group, which would end the recorder with them,
                # and they would stay open in the ledger until the next start.
                self._end_runs()
                self.recorder.last_call()
                await self._until_idle()
                recording.cancel()

    async def _claim_until_stopped(self, tasks: asyncio.TaskGroup) -> None:
        while not self._stopping:
            # Cleared before looking, so that a wake between looking and sleeping is not lost.
            self._woken.clear()
            claimed = await self.turn(tasks)
            if not self._stopping:
                self._look_at = self._next_look(claimed)
                await self._timer.sleep_until(self._look_at, self._woken)

    async def turn(self, tasks: asyncio.TaskGroup) -> Claimed:
        """Claim what is due and start it."""
        self.turns += 1
        self.looked_at = now = self._timer.now()
        room = self._settings.max_concurrent - len(self.running)
        self._was_full = room <= 0
        if self._was_full:
            return Claimed()  # a full node leaves due work to others, and looks again when a run has ended
        lost, is_back = self._notice(now)
        node = self._node(room)
        try:
            claimed = await self._store.write(lambda tx: _turn(tx, now, node, lost, put_back=is_back))
        except StoreUnavailable as error:
            log.warning("nothing claimed error=%s %s next look in %s", error, error.hint, self._settings.check_interval)
            return Claimed()
        except ClaimLost:
            self.is_lost.set()
            return Claimed()
        except Exception as error:  # noqa: BLE001 - what cannot be written must not stop what can
            return await self._narrow_down(now, error)
        self._most, self._crowd = BATCH, claimed.crowd
        self._was_full = claimed.is_full
        pass_by(CrashPoint.AFTER_CLAIM)
        await self._start(now, claimed, tasks)
        return claimed

    def _node(self, room: int) -> Node:
        known, settings = tuple(self._gaps), self._settings
        return Node(
            settings.node_id,
            room,
            self._pacer,
            known,
            self._most,
            self._crowd,
            settings.labels,
            settings.fleet_limit,
        )

    async def _start(self, now: datetime, claimed: Claimed, tasks: asyncio.TaskGroup) -> None:
        preparing = self._prepare(claimed.claims) if claimed.claims else None
        if preparing is not None:
            await preparing
        for each in claimed.claims:
            task = tasks.create_task(self._run(each), name=f"run {each.label}")
            self.running[each.run_id] = Running(each, task, now)
        # After the starts: a beat that had waited and is taken up in the very turn of its successor is in its way, too.
        for schedule_id in claimed.cancel_schedules:
            self.cancel_runs(schedule_id, REPLACED)
        self._report(now, claimed.quarantined)
        self._tell.started(now, claimed.claims)
        self._tell.settled(now, claimed.settled, self.running.values())

    async def _narrow_down(self, now: datetime, error: Exception) -> Claimed:
        """Half as much in the next turn, until the bad one is alone: then it is set aside, and all goes on."""
        log.error("turn cannot be written most=%s error=%r the next one takes less", self._most, error)
        is_alone, self._most, self._crowd = self._most == 1, max(1, self._most // 2), None
        if not is_alone:
            return Claimed(wake_at=now)
        try:
            aside = await self._store.write(lambda tx: set_aside(tx, now, error))
        except StoreUnavailable as away:
            log.warning("nothing set aside error=%s next look in %s", away, self._settings.check_interval)
            return Claimed()
        if aside is None:
            # Nothing is due, and still it fails. Looking again at once, a node wrote 2,400 such lines a second.
            return Claimed()
        self._report(now, aside)
        return Claimed(wake_at=now)

    def _notice(self, now: datetime) -> tuple[Gap | None, bool]:
        """Has time been lost since the last look, or the clock been put back?"""
        reading = self._timer.pulse()
        silence = max(self._settings.lease / 3, 3 * self._settings.check_interval)
        lost, is_back = lost_time(self._pulse, reading, silence), went_back(self._pulse, reading)
        self._pulse = reading
        if not self._settings.is_alone:
            return None, is_back
        if lost is not None:
            self._gaps.append(lost)
            self._tell.time_lost(now, lost)
        return lost, is_back

    async def _run(self, claim: Claim) -> None:
        try:
            self._refuse_unheld()
            self.recorder.add(await self._perform(claim))
        except asyncio.CancelledError:
            if claim.run_id not in self._endings:
                self.recorder.add(FinishedRun(claim.run_id, None, Outcome(status=RunStatus.INTERRUPTED)))
                raise
            await self._close_cancelled(claim.run_id)
        finally:
            self._endings.pop(claim.run_id, None)
            del self.running[claim.run_id]

    def _refuse_unheld(self) -> None:
        """A run whose lease is over is not ours to start any more."""
        if not self._may_start():
            raise asyncio.CancelledError

    async def _close_cancelled(self, run_id: int) -> None:
        """A function in a thread cannot be stopped: its place stays taken until it really is over."""
        ending = self._endings[run_id]
        ending.is_out = True
        try:
            await self._ended(run_id)
        finally:
            # Also when the node is cut off meanwhile: it does not wait for what cannot be stopped.
            self.recorder.add(FinishedRun(run_id, None, ending.outcome))

    async def _until_idle(self) -> None:
        while self.running:
            done, _ = await asyncio.wait([each.task for each in self.running.values()])
            for run_id in [run_id for run_id, each in self.running.items() if each.task in done]:
                # Cut off before its first step, it could not even say so itself.
                del self.running[run_id]
                self.recorder.add(FinishedRun(run_id, None, Outcome(status=RunStatus.INTERRUPTED)))
        await self.recorder.drained()

    def _next_look(self, claimed: Claimed) -> datetime:
        poll = self._timer.now() + self._settings.check_interval
        return poll if claimed.wake_at is None else min(poll, claimed.wake_at)

    def hear(self, finished: Finished) -> None:
        """Runs of others were closed by a sweep: what they held is free, and what they were at may go on."""
        if finished.closed:
            self._on_finished(finished)
            self.wake()

    def _on_finished(self, finished: Finished) -> None:
        """Look again if the finish has made something due before the loop would wake anyway."""
        is_sooner = finished.wake_at is not None and finished.wake_at < self._look_at
        if is_sooner or self._was_full:
            self._woken.set()
        self._tell.finished(finished)
        self._report(finished.at, finished.quarantined)

    def _report(self, now: datetime, quarantined: list[Quarantined]) -> None:
        for each in quarantined:
            log.error("schedule quarantined schedule=%s reason=%s it rests until it is edited", *each)
        self._tell.quarantined(now, quarantined)


def _turn(tx: Transaction, now: datetime, node: Node, lost: Gap | None, *, put_back: bool) -> Claimed:
    if lost is not None:
        tx.add_gap(lost)
    if put_back:
        tx.pull_back(now)
    return claim(tx, now, node)
