"""A node from start to stop: join the ledger, serve, show signs of life, stop softly and then firmly, leave."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta

from herdbeat.errors import SchedulerShutdownError, StoreUnavailable
from herdbeat.events import Listener, NodeReady, TimeLost, nobody
from herdbeat.scheduler.life import Identity, join
from herdbeat.scheduler.loop import Loop, Perform, Prepare, Settings, as_it_is
from herdbeat.scheduler.timer import Timer
from herdbeat.store.base import Store

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


class ServingNode:
    """One process that claims and runs. `serve` returns when it has stopped."""

    def __init__(self, parts: NodeParts, settings: Settings, identity: Identity) -> None:
        self._parts = parts
        self._settings = settings
        self._identity = identity
        self._stop = asyncio.Event()
        self._cut_off = asyncio.Event()
        self._stop_timeout = timedelta(seconds=30)
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

    async def serve(self) -> None:
        """Raises SchedulerShutdownError if runs had to be cut off."""
        parts, timer = self._parts, self._parts.timer
        joined = await parts.store.write(lambda tx: join(tx, timer.now(), self._identity))
        settings = replace(self._settings, node_id=joined.node_id, gaps=joined.gaps)
        self.loop = Loop(parts.store, timer, parts.perform, settings, parts.listener, parts.prepare)
        for gap in joined.gaps[-1:]:
            parts.listener(TimeLost(timer.now(), gap))
        parts.listener(NodeReady(timer.now(), joined.node_id, joined.interrupted))
        try:
            await self._until_stopped(self.loop, joined.node_id)
        finally:
            await parts.store.write(lambda tx: tx.leave_node(joined.node_id, timer.now()))

    async def _until_stopped(self, loop: Loop, node_id: int) -> None:
        """Soft stop and hard stop are two things: first no more claims, then no more patience."""
        async with asyncio.TaskGroup() as tasks:
            alive = tasks.create_task(self._stay_alive(node_id), name="heartbeat")
            serving = tasks.create_task(loop.run(), name="loop")
            upkeep = tasks.create_task(self._parts.upkeep(), name="upkeep") if self._parts.upkeep else alive
            stopping = tasks.create_task(self._stop.wait(), name="stop")
            cutting = tasks.create_task(self._cut_off.wait(), name="cut off")
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            loop.stop()
            patience = self._stop_timeout.total_seconds()
            await asyncio.wait([serving, cutting], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            loop.cut_off()
            await asyncio.wait([serving])
            alive.cancel()
            upkeep.cancel()
            stopping.cancel()
            cutting.cancel()
        if loop.cut_off_runs:
            raise _shutdown_error(len(loop.cut_off_runs), None if self._cut_off.is_set() else self._stop_timeout)

    async def _stay_alive(self, node_id: int) -> None:
        """Renewed at a third of the lease, so that two renewals may fail before anybody worries."""
        timer, lease = self._parts.timer, self._settings.lease
        never = asyncio.Event()
        while True:
            await timer.sleep_until(timer.now() + lease / 3, never)
            try:
                await self._parts.store.write(lambda tx: tx.renew_node(node_id, timer.now()))
            except StoreUnavailable as error:
                log.warning("no sign of life written error=%s next in %s", error, lease / 3)


def _shutdown_error(cut_off: int, timeout: timedelta | None) -> SchedulerShutdownError:
    """Without a timeout somebody has asked for it."""
    runs = "1 run" if cut_off == 1 else f"{cut_off} runs"
    if timeout is None:
        message = f"Stopped at once: {runs} cut off."
    else:
        message = f"The stop timed out after {timeout.total_seconds():g}s: {runs} still going, and cut off."
    return SchedulerShutdownError(message, timed_out=timeout is not None, running_job_count=cut_off)
