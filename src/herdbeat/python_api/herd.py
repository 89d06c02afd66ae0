"""`Herd`: functions on schedules, in a script, a web application or a test."""

import asyncio
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import detect_system_zone, find_holder_pid
from herdbeat.bootstrap.embedding import LocalFunctions, SystemTimer, Timer
from herdbeat.bootstrap.engine import Engine
from herdbeat.bootstrap.handle import PostgresLocation
from herdbeat.bootstrap.server_spec import ServerSpec, build_server_spec
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import Conflict, HerdbeatError, SchedulerShutdownError, UsageError
from herdbeat.events import EventListener, null_listener
from herdbeat.platform import handle_stop_signals
from herdbeat.python_api.client import HerdClient, StorePlace
from herdbeat.python_api.herdctl_types import DurationLike
from herdbeat.python_api.options import (
    DEFAULT_STATE_DIR,
    ScheduleOptions,
    parse_duration_option,
    parse_interval_option,
    require_positive,
    set_state_dir,
)
from herdbeat.threads import call_in_thread, use_daemon_threads
from herdbeat.timestamps import parse_zone

if TYPE_CHECKING:
    from herdbeat.web import EmbeddedServer, IdentifyUser

log = logging.getLogger(__name__)

STANDBY_INTERVAL_S = 1.0
"""Seconds between two looks whether the process that runs the herd has ended."""

MAX_LOCAL_NODES = 256
"""Processes of one machine that share a herd in a database."""

StopSignal = tuple[asyncio.AbstractEventLoop, asyncio.Event]


async def _run_until_stopped(started: "Future[StopSignal]", max_concurrent: int) -> None:
    use_daemon_threads(max_concurrent)
    stop_event = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), stop_event))
    await stop_event.wait()


class Herd(HerdClient):
    """Schedules functions with decorators, and runs them until it is stopped.

    The ledger is in `state_dir`, so a restart continues where the last one ended; None keeps it in a temporary folder
    for as long as the herd runs. With `store="postgresql://…"` it is in a database, and every process with this herd is
    a node of it; `state_dir` then holds each node's own lock, socket and logs. With `standby=True` a herd whose state
    directory is in use waits until it is free instead of failing. `defaults` are options for all of its functions.
    """

    def __init__(
        self,
        state_dir: str | Path | None = DEFAULT_STATE_DIR,
        *,
        name: str = "herd",
        store: str | None = None,
        standby: bool = False,
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
        self._store = _require_database(store)
        self._is_standby = standby
        self._standby_task: asyncio.Task[None] | None = None
        self._node_dir: Path | None = None
        self._engine: Engine | None = None

    @property
    def state_dir(self) -> Path:
        """The folder of the ledger, or of this process's node if the ledger is in a database.

        Raises UsageError if the folder is temporary and the herd is not running.
        """
        if self._state_dir is not None:
            return self._node_dir or self._state_dir
        if self._temporary is None:
            raise UsageError(
                "A herd without a state_dir has no ledger while it is not running.", hint="Start it first."
            )
        return Path(self._temporary.name)

    @property
    def ledger(self) -> StorePlace:
        place = self.state_dir
        return place if self._store is None else PostgresLocation(url=self._store, state_dir=place)

    @property
    def is_running(self) -> bool:
        """Whether this process runs the functions. False while it is on standby."""
        return self._engine is not None and self._engine.is_running

    async def start(self) -> None:
        """Return when the herd is running. Raises Conflict if another process runs in the state directory.

        With `standby` it returns instead, and takes over when that process has ended.
        """
        if self.is_running or self._standby_task is not None:
            raise UsageError(
                "The herd is already running.", hint="Stop it first, or call apply() to add new schedules."
            )
        if self._state_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="herdbeat-")
        if self._store is not None:
            await self._start_node(self.state_dir)
            return
        try:
            await self._start_engine()
        except Conflict:
            if not self._is_standby or find_holder_pid(self.state_dir) is None:
                raise
            self._standby_task = asyncio.create_task(self._take_over_later(), name="herdbeat standby")

    async def _start_node(self, state_dir: Path) -> None:
        """Join the nodes of a database, in a folder of its own. Another process may take that folder first."""
        while True:
            self._node_dir = folder = _find_free_node_dir(state_dir)
            try:
                await self._start_engine()
            except Conflict:
                if find_holder_pid(folder) is None:
                    raise
            else:
                return

    async def _start_engine(self) -> None:
        self._engine = Engine(
            self._fleet(),
            LocalFunctions(functions=self.functions, by_schedule=self.bound_functions),
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
        """Start no new runs, and wait up to `stop_timeout` for active ones.

        Raises SchedulerShutdownError if they do not end in time, or the error that has stopped the herd. When called by
        a function of this herd, it returns immediately, and the herd stops after that run.
        """
        await self._stop_standing_by()
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

    async def _take_over_later(self) -> None:
        """Look for the end of the process that runs the herd, and run it then."""
        log.info("herd on standby state_dir=%s another process runs it", self.state_dir)
        while True:
            await asyncio.sleep(STANDBY_INTERVAL_S)
            if await call_in_thread(find_holder_pid, self.state_dir) is not None:
                continue
            try:
                await self._start_engine()
            except Conflict:
                continue  # another process was faster
            except HerdbeatError as error:
                log.warning("herd takeover failed error=%s %s retry in %ss", error, error.hint, STANDBY_INTERVAL_S)
                continue
            log.info("herd taken over state_dir=%s", self.state_dir)
            self._standby_task = None
            return

    async def _stop_standing_by(self) -> None:
        task, self._standby_task = self._standby_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def apply(self) -> None:
        """Apply schedules that were added or removed since the start."""
        if self._engine is None or not self._engine.is_running:
            raise UsageError("The herd is not running.", hint="Start it; starting applies all schedules.")
        await self._engine.set_fleet(self._fleet())

    def asgi(self, *, identify: "IdentifyUser | None" = None) -> "EmbeddedServer":
        """Return API and dashboard as an ASGI application, to mount in one's own: `app.mount("/herd", herd.asgi())`.

        `identify(request)` returns the name and the scope (`read`, `operate`, `admin`) of the user who is asking, or
        None. Without it only tokens of this herd are accepted. It works in every process of the application; requests
        share the machine with the herd's own functions, and many of them can delay beats.
        """
        from herdbeat.web import embed_server  # noqa: PLC0415 -- only those who serve need FastAPI

        return embed_server(self._server_spec, identify)

    def _server_spec(self) -> ServerSpec:
        return build_server_spec(self._fleet(), None, os.environ, Path.cwd(), has_files=False)

    async def run(self) -> None:
        """Start, and return when the herd has stopped. Cancelling it stops the herd as `stop` does."""
        async with self:
            await self._wait_stopped()

    async def _wait_stopped(self) -> None:
        if self._standby_task is not None:
            await asyncio.wait([self._standby_task])
        if self._engine is not None:
            await self._engine.wait_stopped()

    def run_forever(self) -> None:
        """For scripts: run until Ctrl+C or SIGTERM. The first signal waits for active runs, the second interrupts them.

        Raises UsageError if an event loop is running, or outside of the main thread.
        """
        _require_signal_support()
        try:
            asyncio.run(self._until_signal())
        except SchedulerShutdownError as error:
            log.warning("herd stopped error=%s", error.message)

    @contextmanager
    def in_background(self) -> Iterator[Self]:
        """For programs without an event loop: run the herd in a background thread until the block ends.

        Raises the same errors as `start` and `stop`.
        """
        started: Future[StopSignal] = Future()
        serving = _run_until_stopped(started, self._max_concurrent)
        thread = Thread(target=lambda: asyncio.run(serving), name="herdbeat", daemon=True)
        thread.start()
        loop, stop_event = started.result()
        try:
            asyncio.run_coroutine_threadsafe(self.start(), loop).result()
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self.stop(), loop).result()
        finally:
            loop.call_soon_threadsafe(stop_event.set)
        thread.join()  # not in `finally`: a second Ctrl+C must not wait for a function that cannot be stopped

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _until_signal(self) -> None:
        loop = asyncio.get_running_loop()
        use_daemon_threads(self._max_concurrent)
        async with self:
            handle_stop_signals(loop, self._on_signal)
            await self._wait_stopped()

    def _on_signal(self) -> None:
        if self._standby_task is not None:
            self._standby_task.cancel()
        elif self._engine is not None:
            self._engine.stop_on_signal(self._stop_timeout)

    def _fleet(self) -> Fleet:
        fleet = self.fleet(self._store or "")
        if self._store is None:
            fleet = set_state_dir(fleet, self.state_dir)
        else:
            fleet = replace(fleet, state_dir=str(self.state_dir.absolute()))
        return replace(fleet, check_interval=self._check_interval, stop_timeout=self._stop_timeout)

    def _clean_up(self) -> None:
        self._node_dir = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None


def _require_signal_support() -> None:
    """Raises UsageError. Python's own error mentions a wakeup descriptor, and not what to do."""
    if threading.current_thread() is not threading.main_thread():
        hint = "Use `with herd.in_background():`, or `await herd.run()` in the thread's event loop."
        raise UsageError("run_forever must be called in the main thread, because it handles signals.", hint=hint)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("run_forever cannot be called while an event loop is running.", hint="Use `await herd.run()`.")


def _require_database(store: str | None) -> str | None:
    if store is not None and not store.startswith(("postgresql:", "postgres:")):
        hint = 'Write store="postgresql://USER@HOST/DATABASE"; use state_dir for a file.'
        raise UsageError("store must be the URL of a PostgreSQL database.", hint=hint)
    return store


def _find_free_node_dir(state_dir: Path) -> Path:
    """Return the first folder that no other process of this machine uses: each node has a lock and a socket."""
    folders = (state_dir if number == 1 else state_dir / f"node-{number}" for number in range(1, MAX_LOCAL_NODES + 1))
    free = next((folder for folder in folders if find_holder_pid(folder) is None), None)
    if free is None:
        raise Conflict(f"{MAX_LOCAL_NODES} processes on this machine already run the herd.", hint="Stop some of them.")
    return free


def _resolve_zone(timezone: str | ZoneInfo | None) -> ZoneInfo:
    if timezone is None:
        return detect_system_zone(os.environ)
    return timezone if isinstance(timezone, ZoneInfo) else parse_zone(timezone)
