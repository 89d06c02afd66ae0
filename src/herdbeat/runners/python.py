"""Runs Python functions: async ones in a task of the event loop, others in a thread pool.

A function in a thread cannot be stopped, and an async one may ignore its cancellation. When its run is cancelled, the
run ends (an async function has the kill grace to end before it), but the function continues until it returns;
`wait_stopped` waits for that, so that its slot is not given to another run before.
"""

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from inspect import isawaitable
from typing import Any

from herdbeat.clock import Clock
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import CallableSpec
from herdbeat.errors import RunnerError
from herdbeat.runners.base import Job
from herdbeat.runners.function_task import FunctionTask
from herdbeat.runners.functions import Function, NotRegistered, import_function
from herdbeat.runners.printed_output import PrintedOutput, PrintRouting, end_capture, start_capture
from herdbeat.runners.run_log import LogStream
from herdbeat.runners.settings import RunnerSettings
from herdbeat.runners.thread_pool import DaemonThreadPool, contain_error

log = logging.getLogger(__name__)

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
        note = (
            f"The return value is not stored: it has {len(text)} bytes, and at most {settings.response_cap} are kept."
        )
        return Outcome(status=RunStatus.SUCCEEDED, output=text[: settings.output_cap], summary=note)
    return Outcome(status=RunStatus.SUCCEEDED, response=json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Information about a run: the argument of functions that take one."""

    schedule: str
    beat: str
    due_at: datetime
    attempt: int
    prompt: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnfinishedCall:
    """A function that executes although its run has ended; `function` if it is in the loop and not in a thread."""

    label: str
    future: "asyncio.Future[Any]"
    function: FunctionTask | None


class CallableRunner:
    """Runs callables. A function is imported once, by its first run, in a thread: an import may take seconds."""

    def __init__(self, settings: RunnerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._threads: DaemonThreadPool[Any] = DaemonThreadPool(settings.max_concurrent)
        self._print_routing = PrintRouting()
        self._functions: dict[str, Function] = {}
        self._import_lock = asyncio.Lock()
        self._unfinished: dict[int, _UnfinishedCall] = {}

    async def run(self, job: Job) -> Outcome:
        spec = job.target.spec
        assert isinstance(spec, CallableSpec)
        return await self.capture_outcome(job, self._call_named(job, spec.call))

    async def capture_outcome(self, job: Job, awaitable: Awaitable[object]) -> Outcome:
        """Return the outcome of a call, whatever it raises. Only a cancellation of the run itself is raised."""
        self._print_routing.open()
        printed = PrintedOutput(job.claim.run_id, self._settings, self._clock)
        capture = start_capture(printed)
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
            outcome = self._failed(job, error)
        else:
            outcome = EMPTY_SUCCESS if value is None else to_outcome(value, self._settings)
        finally:
            end_capture(capture)
            self._close_output(job, printed)
        return replace(outcome, output=printed.text) if printed.text and not outcome.output else outcome

    async def wait_stopped(self, run_id: int) -> str:
        call = self._unfinished.get(run_id)
        if call is not None:
            await asyncio.wait((call.future,))  # does not raise what the function raises, and does not cancel it
        return ""

    def open(self) -> None:
        """Make functions beside the fleet file importable."""
        sys.path.extend(str(folder) for folder in self._settings.module_folders)

    def close(self) -> None:
        """End idle threads, and async functions that ignore their cancellation: the loop could not end with them."""
        self._threads.close()
        for call in self._unfinished.values():
            if call.function is not None:
                log.warning("function abandoned schedule=%s it ignored its cancellation", call.label)
                call.function.abandon()
        self._print_routing.close()
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
        local = self._settings.local_functions
        registered = local.by_schedule.get(job.claim.label) or local.functions.get(name)
        function = registered or self._functions.get(name) or await self._import_once(job, name)
        call = partial(function.call, _run_context(job)) if function.takes_run else function.call
        return await self.call(job, call, is_async=function.is_async)

    async def call(self, job: Job, call: Callable[[], Any], *, is_async: bool) -> object:
        """Call a function, in the loop or in a thread, and return its result."""
        if is_async:
            return await self._in_task(job, call)
        value = await self._in_thread(job, call)
        # A plain function that wraps an async one is recognized only by the awaitable that it returns.
        return await self._in_task(job, lambda: value) if isawaitable(value) else value

    async def _in_task(self, job: Job, call: Callable[[], Awaitable[object]]) -> object:
        """Call an async function. Cancelled, it has the kill grace to end; after that the run ends without it."""
        function = FunctionTask(call, name=f"function of {job.claim.label}")
        task = function.task
        try:
            result = await function.result
        except asyncio.CancelledError:
            task.cancel()
            try:
                await asyncio.wait((task,), timeout=self._settings.kill_after.total_seconds())
            finally:
                self._keep_unfinished(job, task, function)
            raise
        if result.error is not None:
            raise contain_error(result.error)
        return result.value

    async def _in_thread(self, job: Job, call: Any) -> Any:
        future = self._threads.call(call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._keep_unfinished(job, future)
            raise

    def _keep_unfinished(self, job: Job, future: "asyncio.Future[Any]", function: FunctionTask | None = None) -> None:
        """Remember what still executes after its run has ended. Nothing, if the function itself raised the error."""
        if not future.done():
            run_id = job.claim.run_id
            self._unfinished[run_id] = _UnfinishedCall(label=job.claim.label, future=future, function=function)
            future.add_done_callback(lambda _: self._unfinished.pop(run_id))

    def _close_output(self, job: Job, printed: PrintedOutput) -> None:
        unfinished = self._unfinished.get(job.claim.run_id)
        if unfinished is None:
            printed.close()
        else:
            unfinished.future.add_done_callback(lambda _: printed.close())

    def _failed(self, job: Job, error: BaseException) -> Outcome:
        if isinstance(error, SystemExit) and not error.code:
            return EMPTY_SUCCESS
        with self._settings.open_log(job.claim.run_id, self._clock) as run_log:
            run_log.write(LogStream.ERR, "".join(traceback.format_exception(error)))
        if self._settings.is_embedded:
            run_id = format_short_id(job.claim.run_id)
            log.error("function failed schedule=%s run=%s", job.claim.label, run_id, exc_info=error)
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
