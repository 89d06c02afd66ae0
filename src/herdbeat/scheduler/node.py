"""A node from start to stop: join the ledger, serve, show signs of life, stop softly and then firmly, leave."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from herdbeat.errors import ClaimLost, SchedulerShutdownError, StoreUnavailable
from herdbeat.events import Listener, NodeReady, TimeLost, nobody
from herdbeat.scheduler.lease import Lease, Renewed, nobody_to_tell
from herdbeat.scheduler.life import Identity, Joined, join, sweep
from herdbeat.scheduler.loop import Ended, Loop, Perform, Prepare, Settings, always, as_it_is, at_once
from herdbeat.scheduler.shared_timer import SharedTimer
from herdbeat.scheduler.timer import Timer
from herdbeat.scheduler.told import stop_when_told
from herdbeat.store.base import Shared, Store

log = logging.getLogger(__name__)


@dataclass(slots=True)
class NodeParts:
    """What a node is made of."""

    store: Store
    timer: Timer
    perform: Perform
    listener: Listener = nobody
    upkeep: Callable[[], Coroutine[None, None, None]] | None = None
    prepare: Prepare = as_it_is
    ended: Ended = at_once
    shared: Shared | None = None
    renewed: Renewed = nobody_to_tell


class ServingNode:
    """One process that claims and runs. `serve` returns when it has stopped."""

    def __init__(self, parts: NodeParts, settings: Settings, identity: Identity) -> None:
        self._parts = parts
        self._settings = settings
        self._identity = identity
        self._stop = asyncio.Event()
        self._cut_off = asyncio.Event()
        self._told = asyncio.Event()
        self._stop_timeout = timedelta(seconds=30)
        self._lease = Lease(settings.lease, parts.timer, parts.renewed) if parts.shared else None
        self.loop: Loop | None = None

    def stop(self, timeout: timedelta) -> None:
        """No new starts from now on; what is still running after the timeout is cut off."""
        self._stop_timeout = timeout
        self._stop.set()

    def cut_off(self) -> None:
        """Stop, and wait for no run any longer."""
        self._stop.set()
        self._cut_off.set()

    def wake(self) -> None:
        """Look now: something was written."""
        if self.loop is not None:
            self.loop.wake()

    def _hear(self) -> None:
        """Somebody elsewhere has changed something."""
        self._told.set()
        self.wake()

    async def serve(self) -> None:
        """Raises SchedulerShutdownError if runs had to be cut off, or results could not be written."""
        joined: Joined | None = await self._join(None)
        with _heard(self._parts.shared, self._hear):
            while joined is not None and await self._serve_as(joined):
                log.error("lease lost node=%s its runs are interrupted, it joins again", joined.node_id)
                joined = await self._join_again(joined.node_id)

    async def _join(self, before: int | None) -> Joined:
        """As a new node; what is left of the one it was before is swept with what the dead have left."""
        timer = self._parts.timer
        if isinstance(timer, SharedTimer):
            await timer.measure()
        asked_at = timer.pulse().boottime
        joined = await self._parts.store.write(lambda tx: join(tx, timer.now(), self._identity, before))
        if self._lease is not None:
            self._lease.begin(asked_at)
        return joined

    async def _join_again(self, before: int) -> Joined | None:
        """None if it is stopped before it can."""
        assert self._parts.shared is not None
        self._parts.shared.give_up()
        timer, wait = self._parts.timer, self._settings.check_interval
        while not self._stop.is_set():
            try:
                return await self._join(before)
            except StoreUnavailable as error:
                log.warning("not joined error=%s %s next in %s", error, error.hint, wait)
            await timer.sleep_until(timer.now() + wait, self._stop)
        return None

    async def _serve_as(self, joined: Joined) -> bool:
        """Until it is stopped; or, and then it returns True, until its lease is lost."""
        parts, timer = self._parts, self._parts.timer
        settings = replace(self._settings, node_id=joined.node_id, gaps=joined.gaps, is_alone=self._lease is None)
        may_start = always if self._lease is None else self._lease.is_held
        self.loop = Loop(
            parts.store, timer, parts.perform, settings, parts.listener, parts.prepare, parts.ended, may_start
        )
        for gap in joined.gaps[-1:]:
            parts.listener(TimeLost(timer.now(), gap))
        parts.listener(NodeReady(timer.now(), joined.node_id, joined.interrupted))
        try:
            return await self._until_stopped(self.loop, joined.node_id)
        finally:
            await self._leave(joined.node_id)

    async def _until_stopped(self, loop: Loop, node_id: int) -> bool:
        """Soft stop and hard stop are two things: first no more claims, then no more patience."""
        async with asyncio.TaskGroup() as tasks:
            alive = tasks.create_task(self._stay_alive(loop, node_id), name="heartbeat")
            serving = tasks.create_task(loop.run(), name="loop")
            upkeep = tasks.create_task(self._parts.upkeep(), name="upkeep") if self._parts.upkeep else alive
            obeying = tasks.create_task(self._obey(loop, node_id), name="told to stop")
            stopping = tasks.create_task(self._stop.wait(), name="stop")
            cutting = tasks.create_task(self._cut_off.wait(), name="cut off")
            losing = tasks.create_task(self._lose(loop), name="lease")
            await asyncio.wait([serving, stopping, losing], return_when=asyncio.FIRST_COMPLETED)
            is_lost = losing.done()
            loop.stop()
            patience = 0.0 if is_lost else self._stop_timeout.total_seconds()
            await asyncio.wait([serving, cutting, losing], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            loop.cut_off()
            await asyncio.wait([serving])
            for task in (alive, upkeep, obeying, stopping, cutting, losing):
                task.cancel()
        if is_lost and not self._stop.is_set():
            return True
        cut_off, unwritten = len(loop.cut_off_runs), loop.recorder.unwritten
        if cut_off or unwritten:
            raise _shutdown_error(cut_off, unwritten, None if self._cut_off.is_set() else self._stop_timeout)
        return False

    async def _obey(self, loop: Loop, node_id: int) -> None:
        shared = self._parts.shared
        if shared is not None:
            await stop_when_told(shared, self._parts.timer, loop, node_id, self._told, self._settings.check_interval)

    async def _lose(self, loop: Loop) -> None:
        """Until the node's hold on its runs is over. Where it has the ledger alone, that never is."""
        if self._lease is None:
            await asyncio.Event().wait()
            return
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._lease.watch(), name="lease by the clock")
            refused = tasks.create_task(loop.is_lost.wait(), name="lease by the store")
            await asyncio.wait([watching, refused], return_when=asyncio.FIRST_COMPLETED)
            self._lease.lose()
            refused.cancel()

    async def _stay_alive(self, loop: Loop, node_id: int) -> None:
        """Renewed at a third of the lease, so that two renewals may fail before anybody worries."""
        timer, lease = self._parts.timer, self._settings.lease
        never = asyncio.Event()
        while True:
            await timer.sleep_until(timer.now() + lease / 3, never)
            try:
                await self._renew(node_id)
                if self._lease is not None:
                    loop.hear(await self._parts.store.write(lambda tx: sweep(tx, timer.now(), node_id)))
            except StoreUnavailable as error:
                log.warning("no sign of life written error=%s %s next in %s", error, error.hint, lease / 3)
            except ClaimLost:
                loop.is_lost.set()

    async def _renew(self, node_id: int) -> None:
        timer = self._parts.timer
        asked_at = timer.pulse().boottime
        await self._parts.store.write(lambda tx: tx.renew_node(node_id, timer.now()))
        if self._lease is not None:
            self._lease.renew(asked_at)
        if isinstance(timer, SharedTimer):
            await timer.measure()

    async def _leave(self, node_id: int) -> None:
        """A store that is away must not hide how the stop went; the next start goes by the last sign of life."""
        timer = self._parts.timer
        try:
            await self._parts.store.write(lambda tx: tx.leave_node(node_id, timer.now()))
        except ClaimLost:
            return  # it was given up already
        except StoreUnavailable as error:
            log.warning("end not written node=%s error=%s the next start goes by the last sign of life", node_id, error)


@contextmanager
def _heard(shared: Shared | None, wake: Callable[[], None]) -> Iterator[None]:
    """While the node serves, it looks as soon as another one says that something was changed."""
    if shared is None:
        yield
        return
    loop = asyncio.get_running_loop()
    thread = threading.Thread(
        target=shared.listen, args=(lambda: loop.call_soon_threadsafe(wake),), name="herdbeat-ears", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        shared.close()
        thread.join()


def _shutdown_error(cut_off: int, unwritten: int, timeout: timedelta | None) -> SchedulerShutdownError:
    """Without a timeout somebody has asked for it."""
    parts = []
    if cut_off:
        runs = "1 run" if cut_off == 1 else f"{cut_off} runs"
        parts.append(f"{runs} cut off" if timeout is None else f"{runs} still going, and cut off")
    if unwritten:
        results, those = ("1 result", "that run") if unwritten == 1 else (f"{unwritten} results", "those runs")
        parts.append(f"{results} could not be written; {those} will be shown as interrupted at the next start")
    how = "Stopped at once" if timeout is None else f"The stop timed out after {timeout.total_seconds():g}s"
    return SchedulerShutdownError(
        f"{how}: {'; '.join(parts)}.",
        timed_out=timeout is not None,
        running_job_count=cut_off,
        unwritten_result_count=unwritten,
    )
