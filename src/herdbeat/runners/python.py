"""Runs a Python function: async ones in the loop, others in a thread of their own pool.

A function in a thread cannot be stopped. Cancelled, its run is over for us at once, but the function goes on until it
returns; `ended` says when, so that its place is not given away before (SEMANTICS 39).
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
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
from herdbeat.runners.run_log import LogStream, RunLog
from herdbeat.runners.settings import RunnerSettings
from herdbeat.runners.thread_pool import DaemonThreadPool

# What a function returned, as an outcome: JSON is stored, the rest is shown.


EMPTY_SUCCESS = Outcome(status=RunStatus.SUCCEEDED)
"""Shared by every run that has nothing to say."""


def to_outcome(value: object, settings: RunnerSettings) -> Outcome:
    """An Outcome is taken as it is. JSON is copied, so that the function may go on changing its own."""
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
    """What a function is told about its run, if it asks."""

    schedule: str
    beat: str
    due_at: datetime
    attempt: int
    prompt: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _RaisedError:
    """An error on its way out of a thread."""

    error: BaseException


class CallableRunner:
    """A function is imported once, by its first run, in a thread: an import may take seconds."""

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
        return await self.attempt(job, self._call_named(job, spec.call))

    async def attempt(self, job: Job, awaitable: Awaitable[object]) -> Outcome:
        """How a call ended, whatever it raised. Only a cancellation of the run itself goes through."""
        try:
            value = await awaitable
        except NotRegistered as error:
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.CONFIG_ERROR, error=_describe_error(error))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._failed(job, error)  # nobody cancelled the run: the function itself raised it
        except (Exception, SystemExit) as error:  # noqa: BLE001  a function may raise anything; it is its run that fails
            return self._failed(job, error)
        return EMPTY_SUCCESS if value is None else to_outcome(value, self._settings)

    async def wait_stopped(self, run_id: int) -> None:
        future = self._unfinished_threads.get(run_id)
        if future is not None:
            await asyncio.shield(future)

    def open(self) -> None:
        """Functions are looked for beside the fleet file, too."""
        sys.path.extend(str(folder) for folder in self._settings.module_folders)

    def close(self) -> None:
        self._threads.close()
        for folder in self._settings.module_folders:
            with suppress(ValueError):  # a function may have changed the path, too
                sys.path.remove(str(folder))

    async def _import_once(self, job: Job, name: str) -> Function:
        # One at a time: a thousand first runs at once would take a thread each to import the same module.
        async with self._import_lock:
            if name not in self._functions:
                self._functions[name] = await self._in_thread(job, partial(import_function, name))
        return self._functions[name]

    async def _call_named(self, job: Job, name: str) -> object:
        function = (
            self._settings.local_functions.functions.get(name)
            or self._functions.get(name)
            or await self._import_once(job, name)
        )
        call = partial(function.call, _run_context(job)) if function.takes_run else function.call
        return await self.call(job, call, is_async=function.is_async)

    async def call(self, job: Job, call: Callable[[], Any], *, is_async: bool) -> object:
        """What it returns: awaited in the loop, or from a thread."""
        if is_async:
            return await call()
        value = await self._in_thread(job, call)
        # A function that wraps an async one looks like any other until it returns.
        return await value if isawaitable(value) else value

    async def _in_thread(self, job: Job, call: Any) -> Any:
        future = self._threads.call(partial(_call_safely, call))
        try:
            result = await asyncio.shield(future)
        except asyncio.CancelledError:
            run_id = job.claim.run_id
            self._unfinished_threads[run_id] = future
            future.add_done_callback(lambda _: self._unfinished_threads.pop(run_id))
            raise
        if isinstance(result, _RaisedError):
            raise _contain_error(result.error)
        return result

    def _failed(self, job: Job, error: BaseException) -> Outcome:
        if isinstance(error, SystemExit) and not error.code:
            return EMPTY_SUCCESS
        settings = self._settings
        with closing(RunLog(settings.state_dir, job.claim.run_id, self._clock, settings.log_cap)) as run_log:
            run_log.write(LogStream.ERR, "".join(traceback.format_exception(error)))
        return Outcome(status=RunStatus.FAILED, error=_describe_error(error))


def _call_safely(call: Any) -> object:
    """Hand over what was raised: a future refuses StopIteration, and SystemExit would end the thread in silence."""
    try:
        return call()
    except BaseException as error:  # noqa: BLE001  it is raised again in the loop
        return _RaisedError(error)


def _contain_error(error: BaseException) -> BaseException:
    """In the loop a KeyboardInterrupt would mean that the operator wants the node to stop."""
    if isinstance(error, Exception | SystemExit | asyncio.CancelledError):
        return error
    return RuntimeError(f"the function raised {type(error).__name__}").with_traceback(error.__traceback__)


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
