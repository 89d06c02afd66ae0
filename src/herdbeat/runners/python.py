"""Runs Python functions: async ones in the event loop, others in a thread pool.

A function in a thread cannot be stopped. When its run is cancelled, the run ends at once, but the function continues
until it returns; `wait_stopped` waits for that, so that its slot is not given to another run before.
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from inspect import isawaitable
from typing import Any

from herdbeat.clock import Clock
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import CallableSpec
from herdbeat.errors import RunnerError
from herdbeat.runners.base import Job
from herdbeat.runners.functions import Function, NotRegistered, import_function
from herdbeat.runners.run_log import LogStream
from herdbeat.runners.settings import RunnerSettings
from herdbeat.runners.thread_pool import DaemonThreadPool

EMPTY_SUCCESS = Outcome(status=RunStatus.SUCCEEDED)
"""Shared by all runs that return None."""


def to_outcome(value: object, settings: RunnerSettings) -> Outcome:
    """Convert what a function returned. An Outcome is used as it is; JSON becomes the response; the rest is shown.

    JSON is copied, because the function may keep and change its own object.
    """
    if isinstance(value, Outcome):
        return value
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return Outcome(status=RunStatus.SUCCEEDED, output=repr(value)[: settings.output_cap])
    if len(text) > settings.response_cap:
        note = f"The answer is not stored: it has {len(text)} bytes, and at most {settings.response_cap} are kept."
        return Outcome(status=RunStatus.SUCCEEDED, output=text[: settings.output_cap], summary=note)
    return Outcome(status=RunStatus.SUCCEEDED, response=json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a function may know about its run: the argument of functions that take one."""

    schedule: str
    beat: str
    due_at: datetime
    attempt: int
    prompt: str
    variables: Mapping[str, str] = field(default_factory=dict)


class CallableRunner:
    """Runs callables. A function is imported once, by its first run, in a thread: an import may take seconds."""

    def __init__(self, settings: RunnerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._threads: DaemonThreadPool[Any] = DaemonThreadPool(settings.max_concurrent)
        self._functions: dict[str, Function] = {}
        self._import_lock = asyncio.Lock()
        self._unfinished_threads: dict[int, asyncio.Future[Any]] = {}

    async def run(self, job: Job) -> Outcome:
        spec = job.target.spec
        assert isinstance(spec, CallableSpec)
        return await self.capture_outcome(job, self._call_named(job, spec.call))

    async def capture_outcome(self, job: Job, awaitable: Awaitable[object]) -> Outcome:
        """Return the outcome of a call, whatever it raises. Only a cancellation of the run itself is raised."""
        try:
            value = await awaitable
        except NotRegistered as error:
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.CONFIG_ERROR, error=_describe_error(error))
        # Broad, because this is the user's code and may raise anything: the run fails, the node goes on. SystemExit
        # would otherwise end the node, and a function may raise CancelledError although its run is not cancelled.
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            return self._failed(job, error)
        return EMPTY_SUCCESS if value is None else to_outcome(value, self._settings)

    async def wait_stopped(self, run_id: int) -> str:
        future = self._unfinished_threads.get(run_id)
        if future is not None:
            await asyncio.wait((future,))  # does not raise what the function raises, and does not cancel it
        return ""

    def open(self) -> None:
        """Make functions beside the fleet file importable."""
        sys.path.extend(str(folder) for folder in self._settings.module_folders)

    def close(self) -> None:
        self._threads.close()
        for folder in self._settings.module_folders:
            with suppress(ValueError):  # a function may have removed it already
                sys.path.remove(str(folder))

    async def _import_once(self, job: Job, name: str) -> Function:
        # One import at a time: a thousand first runs at once would take a thread each to import the same module.
        async with self._import_lock:
            if name not in self._functions:
                self._functions[name] = await self._in_thread(job, partial(import_function, name))
        return self._functions[name]

    async def _call_named(self, job: Job, name: str) -> object:
        registered = self._settings.local_functions.functions
        function = registered.get(name) or self._functions.get(name) or await self._import_once(job, name)
        call = partial(function.call, _run_context(job)) if function.takes_run else function.call
        return await self.call(job, call, is_async=function.is_async)

    async def call(self, job: Job, call: Callable[[], Any], *, is_async: bool) -> object:
        """Call a function, in the loop or in a thread, and return its result."""
        if is_async:
            return await call()
        value = await self._in_thread(job, call)
        # A plain function that wraps an async one is recognized only by the awaitable that it returns.
        return await value if isawaitable(value) else value

    async def _in_thread(self, job: Job, call: Any) -> Any:
        future = self._threads.call(call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.done():  # else the function itself raised it
                run_id = job.claim.run_id
                self._unfinished_threads[run_id] = future
                future.add_done_callback(lambda _: self._unfinished_threads.pop(run_id))
            raise

    def _failed(self, job: Job, error: BaseException) -> Outcome:
        if isinstance(error, SystemExit) and not error.code:
            return EMPTY_SUCCESS
        with self._settings.open_log(job.claim.run_id, self._clock) as run_log:
            run_log.write(LogStream.ERR, "".join(traceback.format_exception(error)))
        return Outcome(status=RunStatus.FAILED, error=_describe_error(error))


def _describe_error(error: BaseException) -> str:
    if isinstance(error, RunnerError):
        return f"{error.message} {error.hint}".strip()
    if isinstance(error, SystemExit):
        return f"the function called sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _run_context(job: Job) -> RunContext:
    claim = job.claim
    return RunContext(
        schedule=claim.label,
        beat=job.beat_key,
        due_at=claim.due_at,
        attempt=claim.attempt,
        prompt=job.prompt,
        variables=job.variables,
    )
