"""Runs Python functions: async ones in a task of the event loop, others in a thread pool.

A function in a thread cannot be stopped, and an async one may ignore its cancellation. When its run is cancelled, the
run ends (an async function has the kill grace to end before it), but the function continues until it returns;
`wait_stopped` waits for that, so that its slot is not given to another run before.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple

from herdbeat.clock import Clock
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import CallableSpec
from herdbeat.errors import RunnerError
from herdbeat.runners.base import Job, mark_unstarted
from herdbeat.runners.functions import Function, NotRegistered, import_function
from herdbeat.runners.run_log import LogStream
from herdbeat.runners.settings import RunnerSettings
from herdbeat.runners.stdout_capture import PrintedOutput, PrintRouting, end_capture, start_capture
from herdbeat.runners.thread_pool import DaemonThreadPool, contain_error, describe_raised

log = logging.getLogger(__name__)

_PACKAGE_FOLDER = str(Path(__file__).parents[1]) + os.sep

_UNCALLED = "its function was called"

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


class CallResult(NamedTuple):
    """What a function returned, or what it raised."""

    value: object = None
    error: BaseException | None = None


class FunctionTask:
    """Calls an async function in a task of its own, so that a run can end before a function that does not.

    Without a task (6 µs a run), cancelling the run could not be told from a timeout that the function itself uses.

    `result` has also what the function raises: a task that raised SystemExit or KeyboardInterrupt would end the loop,
    and one that raised GeneratorExit its whole task group. The task that awaits it may be cancelled: that does not
    cancel the task, and costs half of what `asyncio.shield` costs.
    """

    def __init__(self, call: Callable[[], Awaitable[object]], name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.result: asyncio.Future[CallResult] = loop.create_future()
        self._steps = _Steps(call)
        # Not by the loop, whose task factory may be anybody's: one that starts tasks at once would start this one here.
        self.task = asyncio.Task(self._contain(), loop=loop, name=name)

    @property
    def has_started(self) -> bool:
        return self._steps.has_started

    def abandon(self) -> None:
        """End a function that ignores its cancellation. It gets GeneratorExit, and is not continued after that."""
        self._steps.is_abandoned = True
        self.task.cancel()

    async def _contain(self) -> None:
        try:
            result = CallResult(value=await self._steps)
        # Broad, because this is the user's code: whatever it raises is the outcome of its run.
        except BaseException as error:
            if _is_ctrl_c(error):
                self.result.cancel()
                raise
            result = CallResult(error=contain_error(error))
        if not self.result.done():  # else nobody waits for it any more
            self.result.set_result(result)


async def _await_call(call: Callable[[], Awaitable[object]]) -> object:
    return await call()


class _Steps(Generator[Any, Any, object]):
    """Continues a function step by step. Awaited directly, it would get every exception, with no way to end it."""

    _function: Coroutine[Any, Any, object]

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self._call = call
        self.is_abandoned = False
        self.has_started = False

    def __await__(self) -> Generator[Any, Any, object]:
        self.has_started = True
        self._function = _await_call(self._call)  # not before: a task may be cancelled before its first step
        return self

    def send(self, value: Any) -> Any:
        return self._function.send(value)

    def throw(self, error: Any, *details: Any) -> Any:
        if self.is_abandoned:
            with suppress(RuntimeError):  # it ignores GeneratorExit, too
                self._function.close()
            raise error
        return self._function.throw(error, *details)

    def close(self) -> None:
        self._function.close()


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether Python itself may have raised it: in the main thread of a program that handles no SIGINT."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


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
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, job: Job) -> Outcome:
        spec = job.target.spec
        assert isinstance(spec, CallableSpec)
        return await self.capture_outcome(job, self._call_named(job, spec.call))

    async def capture_outcome(self, job: Job, awaitable: Awaitable[CallResult]) -> Outcome:
        """Return the outcome of a call, whatever it raised. Only a cancellation of the run itself is raised."""
        self._print_routing.open()
        printed = PrintedOutput(job.claim.run_id, self._settings, self._clock)
        capture = start_capture(printed)
        try:
            try:
                value, error = await awaitable
            finally:
                end_capture(capture)  # what is logged about a failure is the program's: the run has its traceback
            if isinstance(error, NotRegistered):
                return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.CONFIG_ERROR, error=_describe_error(error))
            if error is not None:
                outcome = self._failed(job, error)
            else:
                outcome = EMPTY_SUCCESS if value is None else to_outcome(value, self._settings)
        finally:
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

    async def _import_once(self, job: Job, name: str) -> CallResult:
        """Return the Function, or why it cannot be imported."""
        # One import at a time: a thousand first runs at once would take a thread each to import the same module.
        async with self._import_lock:
            if name in self._functions:
                return CallResult(self._functions[name])
            imported = await self._in_thread(job, partial(import_function, name))
            if isinstance(imported.value, Function):
                self._functions[name] = imported.value
            return imported

    async def _call_named(self, job: Job, name: str) -> CallResult:
        local = self._settings.local_functions
        function = local.by_schedule.get(job.claim.label) or local.functions.get(name) or self._functions.get(name)
        if function is None:
            try:
                imported = await self._import_once(job, name)
            except asyncio.CancelledError as error:
                mark_unstarted(error, "its function was imported")
                raise
            if not isinstance(imported.value, Function):
                return imported
            function = imported.value
        call = partial(function.call, _run_context(job)) if function.takes_run else function.call
        return await (self._in_task(job, call) if function.is_async else self.call(job, call, is_async=False))

    async def call(self, job: Job, call: Callable[[], Any], *, is_async: bool) -> CallResult:
        """Call a function, in the loop or in a thread, and return what it returned or raised."""
        if is_async:
            return await self._in_task(job, call)
        result = await self._in_thread(job, call)
        # A plain function that wraps an async one is recognized only by the awaitable that it returns.
        awaitable = result.value
        return await self._in_task(job, lambda: awaitable) if isawaitable(awaitable) else result

    async def _in_task(self, job: Job, call: Callable[[], Awaitable[object]]) -> CallResult:
        """Call an async function. Cancelled, it has the kill grace to end; after that the run ends without it."""
        loop = self._loop = self._loop or asyncio.get_running_loop()  # once: it asks the kernel for our process id
        function = FunctionTask(call, f"function of {job.claim.label}", loop)
        try:
            return await function.result
        except asyncio.CancelledError as error:
            if not function.has_started:
                mark_unstarted(error, _UNCALLED)
            function.task.cancel()
            try:
                await asyncio.wait((function.task,), timeout=self._settings.kill_after.total_seconds())
            finally:
                self._keep_unfinished(job, function.task, function)
            raise

    async def _in_thread(self, job: Job, call: Callable[[], Any]) -> CallResult:
        future = self._threads.call(call)
        try:
            await asyncio.wait((future,))  # does not raise what the function raises, and does not cancel it
        except asyncio.CancelledError:
            self._keep_unfinished(job, future)
            raise
        error = future.exception()
        return CallResult(future.result()) if error is None else CallResult(error=error)

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
        _skip_own_frames(error)
        with self._settings.open_log(job.claim.run_id, self._clock) as run_log:
            run_log.write(LogStream.ERR, "".join(traceback.format_exception(error)))
        if self._settings.is_embedded:
            run_id = format_short_id(job.claim.run_id)
            log.error("function failed schedule=%s run=%s", job.claim.label, run_id, exc_info=error)
        return Outcome(status=RunStatus.FAILED, error=_describe_error(error))


def _skip_own_frames(error: BaseException) -> None:
    """Let the traceback begin in the function, not in the thread that calls it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace


def _describe_error(error: BaseException) -> str:
    if isinstance(error, RunnerError):
        return f"{error.message} {error.hint}".strip()
    if isinstance(error, SystemExit):
        return f"the function called sys.exit({error.code!r})"
    return describe_raised(error)


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
