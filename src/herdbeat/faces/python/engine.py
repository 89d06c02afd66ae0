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
from herdbeat.events import Event, EventListener, NodeReady, null_listener
from herdbeat.faces.local.desk import ControlHandlers
from herdbeat.faces.local.reachable import run_with_socket
from herdbeat.faces.local.server import RequestHandler
from herdbeat.faces.python.documented import TriggerResult
from herdbeat.faces.python.fired import trigger_result_from_ledger
from herdbeat.runners.functions import LocalFunctions
from herdbeat.scheduler.loop import Loop
from herdbeat.scheduler.timer import SystemTimer, Timer
from herdbeat.serve import RunningFleet, replace_fleet, run_fleet
from herdbeat.service.firing import trigger_in_process
from herdbeat.service.objects import JsonObject
from herdbeat.store.opening import open_reader
from herdbeat.store.places import require_sqlite_path

log = logging.getLogger(__name__)

T = TypeVar("T")

RUN_START_TIMEOUT_S = 5.0
"""Seconds for the loop to take a beat up, so that its run can be named. It takes milliseconds."""

LEDGER_POLL_INTERVAL_S = 0.05
"""Seconds between two looks at the ledger while somebody waits for something that is not told as an event."""


class Engine:
    """One fleet in the event loop that starts it. Not to be used again once it has stopped."""

    def __init__(
        self,
        fleet: Fleet,
        local_functions: LocalFunctions,
        *,
        timer: Timer | None,
        listener: EventListener = null_listener,
        max_concurrent: int,
    ) -> None:
        self.fleet = fleet
        self.timer = timer or SystemTimer()
        self.path = require_sqlite_path(fleet)
        self.started_at: datetime | None = None
        self._local_functions = local_functions
        self._publish = listener
        self._max_concurrent = max_concurrent
        self._ready: RunningFleet | None = None
        self._ready_event = asyncio.Event()
        self._stop_requested = False
        self._waiters: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when it is at work. Raises whatever keeps it from that: Conflict, StoreUnavailable, …"""
        # A task without a parent: the caller goes on, and `stop` or the end of the loop ends it.
        self._task = asyncio.create_task(self._serve(), name="herdbeat")
        ready = asyncio.create_task(self._ready_event.wait(), name="herdbeat is at work")
        try:
            await asyncio.wait([self._task, ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        finally:
            ready.cancel()
        if self._task.done():
            await self._task

    async def stop(self, grace: timedelta, *, wait_for_runs: bool = True) -> None:
        """No new starts; runs may finish for so long. Raises SchedulerShutdownError if some had to be cut off.

        Without waiting they are cut off at once; that was asked for, and is no error. If it has ended already, raises
        what it ended with.
        """
        if self.is_running and wait_for_runs:
            self.request_stop(grace)
        elif self.is_running:
            self._require_running.node.hard_stop()
        try:
            await self.wait_stopped()
        except SchedulerShutdownError as error:
            if wait_for_runs or error.unwritten_result_count:
                raise

    def request_stop(self, grace: timedelta) -> None:
        """The same without waiting for it."""
        self._require_running.node.stop(grace)

    def stop_on_signal(self, grace: timedelta) -> None:
        """For signals: the second one cuts off what runs."""
        if self._stop_requested:
            self._require_running.node.hard_stop()
        else:
            self.request_stop(grace)
        self._stop_requested = True

    async def wait_stopped(self) -> None:
        """Until it has stopped, whoever stopped it. Raises what it ended with; cancelled, it works on."""
        assert self._task is not None, "an engine that was never started"
        await asyncio.shield(self._task)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_called_from_run(self) -> bool:
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

    async def set_fleet(self, fleet: Fleet) -> None:
        """Other targets and schedules. Those that stay the same keep their times."""
        self.fleet = fleet
        await replace_fleet(self._require_running, fleet, self.timer.now())

    async def trigger(self, schedule: str, *, origin: str, queue: bool = False) -> JsonObject:
        """A beat by hand: the answer of `herdbeat run --json`."""
        ready = self._require_running
        answer = await trigger_in_process(ready.store, self.timer.now(), schedule, origin=origin, queue=queue)
        ready.node.wake()
        return answer

    async def wait_trigger_result(self, beat: str) -> TriggerResult:
        """Once its run has started. One that a full node, or a missing label, lets wait for long has no job yet."""
        with closing(open_reader(self.path)) as reader:
            try:
                async with asyncio.timeout(RUN_START_TIMEOUT_S):
                    found = await self.wait_until(lambda: trigger_result_from_ledger(reader, beat))
            except TimeoutError:
                found = TriggerResult(success=True)
        return found or TriggerResult(success=False, error="It is written down, but the scheduler has stopped.")

    async def wait_until(self, probe: Callable[[], T | None]) -> T | None:
        """What `look` finds, as soon as it finds something; None if the engine ends first. Asked at every event."""
        assert self._task is not None
        while self.is_running:
            wakeup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(wakeup)  # before looking, so that what happens meanwhile is not slept through
            try:
                found = probe()
                if found is not None:
                    return found
                await asyncio.wait(
                    [wakeup, self._task], timeout=LEDGER_POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                self._waiters.discard(wakeup)
                wakeup.cancel()
        return probe()

    @property
    def _require_running(self) -> RunningFleet:
        if self._ready is None or not self.is_running:
            raise UsageError("Nothing runs here.", hint="Start it first.")
        return self._ready

    def _on_event(self, event: Event) -> None:
        if isinstance(event, NodeReady):
            self.started_at = event.at
            self._ready_event.set()
        for each in self._waiters:
            if not each.done():
                each.set_result(None)
        self._publish(event)

    async def _serve(self) -> None:
        def serve_fleet(on_ready: Callable[[RunningFleet], None]) -> Awaitable[None]:
            return run_fleet(
                self.fleet,
                environ=os.environ,
                on_ready=on_ready,
                listener=self._on_event,
                timer=self.timer,
                max_concurrent=self._max_concurrent,
                local_functions=self._local_functions,
            )

        try:
            await run_with_socket(serve_fleet, self._on_ready, self._open_handlers)
        except Exception as error:
            if self._ready_event.is_set() and not isinstance(error, SchedulerShutdownError):
                # Told at once: in a web application nobody waits for this task before the application ends.
                log.error("herdbeat has ended error=%r nothing is started any more", error)  # noqa: TRY400
            raise

    def _on_ready(self, ready: RunningFleet) -> None:
        self._ready = ready

    @asynccontextmanager
    async def _open_handlers(self, ready: RunningFleet) -> AsyncIterator[Mapping[str, RequestHandler]]:
        yield ControlHandlers(self.fleet, ready, self.timer).handlers
