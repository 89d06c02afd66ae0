"""`Engine`: a fleet at work in the event loop of a Python program, as a background task of it."""

import asyncio
import logging
import os
from asyncio import FIRST_COMPLETED
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from typing import TypeVar

from herdbeat.bootstrap.fleet import RunningFleet, control_socket, running_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import Claim
from herdbeat.errors import SchedulerShutdownError, UsageError
from herdbeat.events import Event, EventListener, NodeReady, null_listener
from herdbeat.runners.functions import LocalFunctions
from herdbeat.scheduler.loop import Loop, current_claim
from herdbeat.scheduler.timers import SystemTimer, Timer
from herdbeat.service.commands.base import Actor, TriggeredBeat, TriggerSchedule
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.store.location import open_reader

log = logging.getLogger(__name__)

T = TypeVar("T")

LEDGER_POLL_INTERVAL_S = 0.05
"""Seconds between two reads of the ledger while a caller waits for something that no event announces."""


class Engine:
    """Runs one fleet in the event loop that starts it. It cannot be started again once it has stopped."""

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
        self.started_at: datetime | None = None
        self._local_functions = local_functions
        self._publish = listener
        self._max_concurrent = max_concurrent
        self._running_fleet: RunningFleet | None = None
        self._ready_event = asyncio.Event()
        self._stop_requested = False
        self._waiters: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when the fleet is running. Raises the error that prevents it: Conflict, StoreUnavailable, …"""
        # A task without a parent: the caller continues, and `stop` or the end of the loop ends it.
        self._task = asyncio.create_task(self._serve(), name="herdbeat")
        self._task.add_done_callback(self._log_failure)
        ready = asyncio.create_task(self._ready_event.wait(), name="herdbeat ready")
        try:
            await asyncio.wait([self._task, ready], return_when=FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        finally:
            ready.cancel()
        if self._task.done():
            await self._task

    async def stop(self, grace: timedelta, *, wait_for_runs: bool = True) -> None:
        """Start nothing new, and give runs that long to finish. Raises SchedulerShutdownError if some were cut off.

        Without `wait_for_runs` they are cut off at once, which is no error then. Raises what the engine ended with, if
        it has ended already.
        """
        if self.is_running and wait_for_runs:
            self.request_stop(grace)
        elif self.is_running:
            self._require_running().node.hard_stop()
        try:
            await self.wait_stopped()
        except SchedulerShutdownError as error:
            if wait_for_runs or error.unwritten_result_count:
                raise

    def request_stop(self, grace: timedelta) -> None:
        """Begin to stop, and return at once."""
        self._require_running().node.stop(grace)

    def stop_on_signal(self, grace: timedelta) -> None:
        """Begin to stop at the first call; the second one cuts off what runs."""
        if self._stop_requested:
            self._require_running().node.hard_stop()
        else:
            self.request_stop(grace)
        self._stop_requested = True

    async def wait_stopped(self) -> None:
        """Return when the engine has stopped. Raises what it ended with. Cancelling the wait does not stop it."""
        assert self._task is not None, "an engine that was never started"
        await asyncio.shield(self._task)

    async def wait_ended(self) -> None:
        """Return when the engine has stopped, however it ended."""
        assert self._task is not None, "an engine that was never started"
        await asyncio.wait([self._task])

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_called_from_run(self) -> bool:
        """Whether the caller is one of the runs, or was started by one."""
        return self.loop is not None and self.loop.is_executing(current_claim.get())

    @property
    def loop(self) -> Loop | None:
        return None if self._running_fleet is None else self._running_fleet.node.loop

    @property
    def running(self) -> list[Claim]:
        """The claims of the active runs."""
        if self.loop is None or not self.is_running:
            return []
        return [run.claim for run in self.loop.active_runs.values()]

    async def set_fleet(self, fleet: Fleet) -> None:
        """Apply other targets and schedules. Those that stay the same keep their times."""
        self.fleet = fleet
        await self._require_running().apply(Actor(name="up"), fleet)

    async def trigger(self, schedule: str, *, origin: str) -> TriggeredBeat:
        """Write a manual beat of `target/schedule`."""
        running = self._require_running()
        with closing(open_reader(running.store.location)) as reader:
            command = TriggerSchedule(schedule=find_schedule(reader, schedule).id)
        return await running.dispatcher.run(Actor(name=origin), command)

    async def wait_until(self, probe: Callable[[], T | None]) -> T | None:
        """Return the first value of `probe` that is not None; None if the engine ends first. Every event calls it."""
        assert self._task is not None
        while self.is_running:
            wakeup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(wakeup)  # before the probe: an event in between would be slept through
            try:
                value = probe()
                if value is not None:
                    return value
                await asyncio.wait([wakeup, self._task], timeout=LEDGER_POLL_INTERVAL_S, return_when=FIRST_COMPLETED)
            finally:
                self._waiters.discard(wakeup)
                wakeup.cancel()
        return probe()

    def _require_running(self) -> RunningFleet:
        if self._running_fleet is None or not self.is_running:
            raise UsageError("herdbeat is not running in this process.", hint="Start it first.")
        return self._running_fleet

    def _on_event(self, event: Event) -> None:
        if isinstance(event, NodeReady):
            self.started_at = event.at
            self._ready_event.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._publish(event)

    async def _serve(self) -> None:
        opened = running_fleet(
            self.fleet,
            environ=os.environ,
            listener=self._on_event,
            timer=self.timer,
            max_concurrent=self._max_concurrent,
            local_functions=self._local_functions,
            apply_config=True,  # a program has no files that could be applied to a shared ledger
        )
        async with opened as running, control_socket(running):
            self._running_fleet = running
            await running.wait_stopped()

    def _log_failure(self, task: "asyncio.Task[None]") -> None:
        """Log it at once: a web application waits for this task only when it ends."""
        if not self._ready_event.is_set():
            return  # `start` raises it
        if task.cancelled():
            log.error("herdbeat was cancelled instead of stopped; no new runs start")
            return
        error = task.exception()
        if error is not None and not isinstance(error, SchedulerShutdownError):
            log.error("herdbeat has ended error=%r no new runs start", error, exc_info=error)
