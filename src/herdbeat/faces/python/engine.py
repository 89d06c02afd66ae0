"""A fleet at work inside a Python program: started, asked, stopped, and reachable through its socket meanwhile."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from datetime import datetime, timedelta
from typing import TypeVar

from herdbeat.domain.claim import Claim
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import SchedulerShutdownError, UsageError
from herdbeat.events import Event, Listener, NodeReady, nobody
from herdbeat.faces.local.desk import Desk
from herdbeat.faces.local.reachable import serve_reachable
from herdbeat.faces.local.server import Handler
from herdbeat.faces.python.documented import TriggerResult
from herdbeat.faces.python.fired import became
from herdbeat.runners.functions import AtHand
from herdbeat.scheduler.loop import Loop
from herdbeat.scheduler.timer import SystemTimer, Timer
from herdbeat.serve import Ready, serve, serve_instead
from herdbeat.service.firing import fire_here
from herdbeat.service.objects import Json
from herdbeat.store.opening import reader_at
from herdbeat.store.places import ledger_path

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds for the loop to take a beat up, so that its run can be named. It takes milliseconds."""

LOOK = 0.05
"""Seconds between two looks at the ledger while somebody waits for something that is not told as an event."""


class Engine:
    """One fleet in the event loop that starts it. Not to be used again once it has stopped."""

    def __init__(
        self, fleet: Fleet, at_hand: AtHand, *, timer: Timer | None, listener: Listener = nobody, max_concurrent: int
    ) -> None:
        self.fleet = fleet
        self.timer = timer or SystemTimer()
        self.path = ledger_path(fleet)
        self.started_at: datetime | None = None
        self._at_hand = at_hand
        self._tell = listener
        self._max_concurrent = max_concurrent
        self._ready: Ready | None = None
        self._is_at_work = asyncio.Event()
        self._is_asked = False
        self._waiting: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when it is at work. Raises whatever keeps it from that: Conflict, StoreUnavailable, …"""
        # A task without a parent: the caller goes on, and `stop` or the end of the loop ends it.
        self._task = asyncio.create_task(self._serve(), name="herdbeat")
        ready = asyncio.create_task(self._is_at_work.wait(), name="herdbeat is at work")
        try:
            await asyncio.wait([self._task, ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        finally:
            ready.cancel()
        if self._task.done():
            await self._task

    async def stop(self, patience: timedelta, *, waits: bool = True) -> None:
        """No new starts; runs may finish for so long. Raises SchedulerShutdownError if some had to be cut off.

        Without waiting they are cut off at once; that was asked for, and is no error. If it has ended already, raises
        what it ended with.
        """
        if self.is_running and waits:
            self.begin_to_stop(patience)
        elif self.is_running:
            self._at_work.node.cut_off()
        try:
            await self.ended()
        except SchedulerShutdownError as error:
            if waits or error.unwritten_result_count:
                raise

    def begin_to_stop(self, patience: timedelta) -> None:
        """The same without waiting for it."""
        self._at_work.node.stop(patience)

    def ask_to_stop(self, patience: timedelta) -> None:
        """For signals: the second one cuts off what runs."""
        if self._is_asked:
            self._at_work.node.cut_off()
        else:
            self.begin_to_stop(patience)
        self._is_asked = True

    async def ended(self) -> None:
        """Until it has stopped, whoever stopped it. Raises what it ended with; cancelled, it works on."""
        assert self._task is not None, "an engine that was never started"
        await asyncio.shield(self._task)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_asked_by_a_run(self) -> bool:
        """The caller is one of the runs, in this event loop."""
        runs = self.loop.running.values() if self.loop is not None else ()
        return any(each.task is asyncio.current_task() for each in runs)

    @property
    def loop(self) -> Loop | None:
        return None if self._ready is None else self._ready.node.loop

    @property
    def running(self) -> list[Claim]:
        """The runs that are going."""
        if self.loop is None or not self.is_running:
            return []
        return [each.claim for each in self.loop.running.values()]

    async def change(self, fleet: Fleet) -> None:
        """Other targets and schedules. Those that stay the same keep their times."""
        self.fleet = fleet
        await serve_instead(self._at_work, fleet, self.timer.now())

    async def fire(self, schedule: str, *, origin: str, queue: bool = False) -> Json:
        """A beat by hand: the answer of `herdbeat run --json`."""
        ready = self._at_work
        answer = await fire_here(ready.store, self.timer.now(), schedule, origin=origin, queue=queue)
        ready.node.wake()
        return answer

    async def result_of(self, beat: str) -> TriggerResult:
        """Once its run has started. One that a full node, or a missing label, lets wait for long has no job yet."""
        with closing(reader_at(self.path)) as reader:
            try:
                async with asyncio.timeout(PATIENCE):
                    found = await self.until(lambda: became(reader, beat))
            except TimeoutError:
                found = TriggerResult(success=True)
        return found or TriggerResult(success=False, error="It is written down, but the scheduler has stopped.")

    async def until(self, look: Callable[[], T | None]) -> T | None:
        """What `look` finds, as soon as it finds something; None if the engine ends first. Asked at every event."""
        assert self._task is not None
        while self.is_running:
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(news)  # before looking, so that what happens meanwhile is not slept through
            try:
                found = look()
                if found is not None:
                    return found
                await asyncio.wait([news, self._task], timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiting.discard(news)
                news.cancel()
        return look()

    @property
    def _at_work(self) -> Ready:
        if self._ready is None or not self.is_running:
            raise UsageError("Nothing runs here.", hint="Start it first.")
        return self._ready

    def _hear(self, event: Event) -> None:
        if isinstance(event, NodeReady):
            self.started_at = event.at
            self._is_at_work.set()
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
        self._tell(event)

    async def _serve(self) -> None:
        def serving(on_ready: Callable[[Ready], None]) -> Awaitable[None]:
            return serve(
                self.fleet,
                environ=os.environ,
                on_ready=on_ready,
                listener=self._hear,
                timer=self.timer,
                max_concurrent=self._max_concurrent,
                at_hand=self._at_hand,
            )

        try:
            await serve_reachable(serving, self._on_ready, self._desks)
        except Exception as error:
            if self._is_at_work.is_set() and not isinstance(error, SchedulerShutdownError):
                # Told at once: in a web application nobody waits for this task before the application ends.
                log.error("herdbeat has ended error=%r nothing is started any more", error)  # noqa: TRY400
            raise

    def _on_ready(self, ready: Ready) -> None:
        self._ready = ready

    @asynccontextmanager
    async def _desks(self, ready: Ready) -> AsyncIterator[Mapping[str, Handler]]:
        yield Desk(self.fleet, ready, self.timer).handlers
