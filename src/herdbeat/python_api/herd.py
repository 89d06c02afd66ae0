"""`Herd`: functions on schedules, in a script, a web application or a test."""

import asyncio
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import detect_system_zone
from herdbeat.bootstrap.fleet import RunningFleet, control_socket, running_fleet
from herdbeat.bootstrap.handle import LEDGER_FILE_NAME
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import Claim
from herdbeat.errors import SchedulerShutdownError, UsageError
from herdbeat.events import Event, EventListener, NodeReady, null_listener
from herdbeat.python_api.client import HerdClient, trigger_result_from_ledger
from herdbeat.python_api.herdctl_types import DurationLike, TriggerResult
from herdbeat.python_api.options import (
    DEFAULT_STATE_DIR,
    ScheduleOptions,
    parse_duration_option,
    parse_interval_option,
    require_positive,
)
from herdbeat.python_api.registry import ScheduleRegistry
from herdbeat.runners.functions import LocalFunctions
from herdbeat.scheduler.loop import Loop
from herdbeat.scheduler.timers import SystemTimer, Timer
from herdbeat.service.commands.base import Actor, TriggeredBeat, TriggerSchedule
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.store.location import open_reader, require_sqlite_path
from herdbeat.timestamps import parse_zone

log = logging.getLogger(__name__)

T = TypeVar("T")

RUN_START_TIMEOUT_S = 5.0
"""Seconds for the loop to take a beat up, so that its run can be named. It takes milliseconds."""

LEDGER_POLL_INTERVAL_S = 0.05
"""Seconds between two reads of the ledger while a caller waits for something that no event announces."""

StopSignal = tuple[asyncio.AbstractEventLoop, asyncio.Event]


@contextmanager
def run_in_thread(context: AbstractAsyncContextManager[Any]) -> Iterator[None]:
    """Enter the asynchronous block in a thread, and leave it with this one. Raises what entering or leaving raised."""
    started: Future[StopSignal] = Future()
    stopped: Future[None] = Future()
    Thread(target=_run_thread, args=(context, started, stopped), name="herdbeat", daemon=True).start()
    loop, stop_event = started.result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop_event.set)
        stopped.result()


def _run_thread(
    context: AbstractAsyncContextManager[Any], started: "Future[StopSignal]", stopped: "Future[None]"
) -> None:
    try:
        asyncio.run(_run_until_stopped(context, started))
    except BaseException as error:  # noqa: BLE001 - what ends a herd is raised again in the thread that waits for it
        (stopped if started.done() else started).set_exception(error)
    else:
        stopped.set_result(None)


async def _run_until_stopped(context: AbstractAsyncContextManager[Any], started: "Future[StopSignal]") -> None:
    stop_event = asyncio.Event()
    async with context:
        started.set_result((asyncio.get_running_loop(), stop_event))
        await stop_event.wait()


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
        self._running_fleet: RunningFleet | None = None
        self._ready_event = asyncio.Event()
        self._stop_requested = False
        self._waiters: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when it is at work. Raises whatever keeps it from that: Conflict, StoreUnavailable, …"""
        # A task without a parent: the caller goes on, and `stop` or the end of the loop ends it.
        self._task = asyncio.create_task(self._serve(), name="herdbeat")
        self._task.add_done_callback(self._log_failure)
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
        runs = self.loop.active_runs.values() if self.loop is not None else ()
        return any(each.task is asyncio.current_task() for each in runs)

    @property
    def loop(self) -> Loop | None:
        return None if self._running_fleet is None else self._running_fleet.node.loop

    @property
    def running(self) -> list[Claim]:
        """The runs that are going."""
        if self.loop is None or not self.is_running:
            return []
        return [each.claim for each in self.loop.active_runs.values()]

    async def set_fleet(self, fleet: Fleet) -> None:
        """Other targets and schedules. Those that stay the same keep their times."""
        self.fleet = fleet
        await self._require_running.dispatcher.apply(Actor(name="up"), fleet)

    async def trigger(self, schedule: str, *, origin: str) -> TriggeredBeat:
        """A beat by hand of `target/schedule`."""
        with closing(open_reader(self.path)) as reader:
            command = TriggerSchedule(schedule=find_schedule(reader, schedule).id)
        return await self._require_running.dispatcher.run(Actor(name=origin), command)

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
        """What `probe` returns, as soon as that is something; None if the engine ends first. Called at every event."""
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
        if self._running_fleet is None or not self.is_running:
            raise UsageError("Nothing runs here.", hint="Start it first.")
        return self._running_fleet

    def _on_event(self, event: Event) -> None:
        if isinstance(event, NodeReady):
            self.started_at = event.at
            self._ready_event.set()
        for each in self._waiters:
            if not each.done():
                each.set_result(None)
        self._publish(event)

    async def _serve(self) -> None:
        opened = running_fleet(
            self.fleet,
            environ=os.environ,
            listener=self._on_event,
            timer=self.timer,
            max_concurrent=self._max_concurrent,
            local_functions=self._local_functions,
        )
        async with opened as running, control_socket(running):
            self._running_fleet = running
            await running.wait_stopped()

    def _log_failure(self, task: "asyncio.Task[None]") -> None:
        """Logged at once: in a web application nobody waits for this task before the application ends."""
        error = None if task.cancelled() else task.exception()
        if error is not None and self._ready_event.is_set() and not isinstance(error, SchedulerShutdownError):
            log.error("herdbeat has ended error=%r nothing is started any more", error)


class Herd(ScheduleRegistry, HerdClient):
    """Schedules functions with decorators, and runs them until it is stopped.

    Everything is kept in `state_dir`, so a restart goes on where it was; None keeps it in a temporary place for as
    long as the herd runs. `defaults` are options for all of its functions.
    """

    def __init__(
        self,
        state_dir: str | Path | None = DEFAULT_STATE_DIR,
        *,
        name: str = "herd",
        timezone: str | ZoneInfo | None = None,
        defaults: ScheduleOptions | None = None,
        max_concurrent: int = 100,
        check_interval: DurationLike = 1.0,
        stop_timeout: DurationLike = 30.0,
        timer: Timer | None = None,
        listener: EventListener = null_listener,
    ) -> None:
        super().__init__(name, _resolve_zone(timezone), defaults)
        self.timer: Timer = timer or SystemTimer()
        self._state_dir = None if state_dir is None else Path(state_dir)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._max_concurrent = require_positive(max_concurrent, "max_concurrent")
        self._check_interval = parse_interval_option(check_interval, "check_interval")
        self._stop_timeout = parse_duration_option(stop_timeout, "stop_timeout")
        self._listener = listener
        self._engine: Engine | None = None

    @property
    def state_dir(self) -> Path:
        """Where everything is kept. Raises UsageError for a temporary place that is not there (any more)."""
        if self._state_dir is not None:
            return self._state_dir
        if self._temporary is None:
            raise UsageError("A herd without a state_dir has no ledger while it does not run.", hint="Start it first.")
        return Path(self._temporary.name)

    @property
    def is_running(self) -> bool:
        return self._engine is not None and self._engine.is_running

    async def start(self) -> None:
        """Begin, and return when it is at work. Raises Conflict if another process runs in the state directory."""
        if self.is_running:
            raise UsageError("The herd runs already.", hint="Stop it first; apply() takes up what was added.")
        if self._state_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="herdbeat-")
        self._engine = Engine(
            self._fleet(),
            LocalFunctions(functions=self.functions),
            timer=self.timer,
            listener=self._listener,
            max_concurrent=self._max_concurrent,
        )
        try:
            await self._engine.start()
        finally:
            if not self._engine.is_running:
                self._engine = None
                self._clean_up()

    async def stop(self) -> None:
        """Start nothing new, and let runs finish for `stop_timeout`. Raises SchedulerShutdownError if they cannot.

        Called by a function of this herd it returns at once, and the herd ends after that run: to wait for it would
        be to wait for itself. If something else has ended the herd meanwhile, that is raised.
        """
        engine = self._engine
        if engine is None:
            return
        if engine.is_called_from_run:
            engine.request_stop(self._stop_timeout)
            return
        try:
            await engine.stop(self._stop_timeout)
        finally:
            self._engine = None
            self._clean_up()

    async def apply(self) -> None:
        """Take up what was scheduled or removed since the start."""
        if self._engine is None or not self._engine.is_running:
            raise UsageError("The herd does not run.", hint="Start it first: it takes up everything then.")
        await self._engine.set_fleet(self._fleet())

    async def run(self) -> None:
        """Start, and return when somebody has stopped it. Cancelled, it stops as `stop` does."""
        async with self:
            assert self._engine is not None
            await self._engine.wait_stopped()

    def run_forever(self) -> None:
        """For scripts: run until Ctrl+C or SIGTERM. The first one lets runs finish, the second cuts them off.

        Raises UsageError where no signal would arrive: beside another event loop, and outside of the main thread.
        """
        _require_signal_support()
        try:
            asyncio.run(self._until_signal())
        except SchedulerShutdownError as error:
            log.warning("herd stopped error=%s", error.message)

    @contextmanager
    def in_background(self) -> Iterator[Self]:
        """For programs without an event loop: the herd works in a thread of its own until the block is left."""
        with run_in_thread(self):
            yield self

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _until_signal(self) -> None:
        loop = asyncio.get_running_loop()
        async with self:
            assert self._engine is not None
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._engine.stop_on_signal, self._stop_timeout)
            await self._engine.wait_stopped()

    def _fleet(self) -> Fleet:
        store = f"sqlite:{(self.state_dir / LEDGER_FILE_NAME).absolute()}"
        return replace(self.fleet(store), check_interval=self._check_interval, stop_timeout=self._stop_timeout)

    def _clean_up(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None


def _require_signal_support() -> None:
    """In our words: those of Python speak of a wakeup descriptor, and not of what to do."""
    if threading.current_thread() is not threading.main_thread():
        hint = "Use `with herd.in_background():`, or `await herd.run()` in an event loop of that thread."
        raise UsageError("run_forever waits for signals, which only the main thread gets.", hint=hint)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("run_forever needs a loop of its own, and one runs here.", hint="Use `await herd.run()`.")


def _resolve_zone(timezone: str | ZoneInfo | None) -> ZoneInfo:
    if timezone is None:
        return detect_system_zone(os.environ)
    return timezone if isinstance(timezone, ZoneInfo) else parse_zone(timezone)
