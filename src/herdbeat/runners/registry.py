"""The registry: every kind of target and its runner."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, Target, TargetKind
from herdbeat.runners.base import Job, PrecheckResult, Runner
from herdbeat.runners.functions import Function
from herdbeat.runners.http.runner import HttpRunner
from herdbeat.runners.precheck import PrecheckRunner
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.runner import CommandRunner
from herdbeat.runners.python import CallableRunner
from herdbeat.runners.settings import RunnerSettings


class CallbackRunner:
    """Runs every target by calling one function of this process with the Job, for users with a runner of their own.

    What the function returns or raises becomes the outcome, as with any callable.
    """

    def __init__(self, function: Function, callables: CallableRunner) -> None:
        self._function = function
        self._callables = callables

    async def run(self, job: Job) -> Outcome:
        call = partial(self._function.call, job)
        result = self._callables.call(job, call, is_async=self._function.is_async)
        return await self._callables.capture_outcome(job, result)

    async def wait_stopped(self, run_id: int) -> None:
        await self._callables.wait_stopped(run_id)


class RunnerRegistry:
    """A runner for every target, which delegates to the runner of its kind."""

    def __init__(
        self,
        runners_by_kind: Mapping[TargetKind, Runner],
        reaper: Reaper,
        prechecks: PrecheckRunner,
        override: Runner | None = None,
    ) -> None:
        self._runners_by_kind = runners_by_kind
        self._reaper = reaper
        self._override = override
        self._prechecks = prechecks

    async def run(self, job: Job) -> Outcome:
        if self._override is not None:
            return await self._override.run(job)
        why = _unsupported_reason(job.target)
        if why:
            return Outcome(status=RunStatus.FAILED, error=why)
        return await self._runners_by_kind[job.target.spec.kind].run(job)

    async def check(self, job: Job) -> PrecheckResult:
        """Return what the precheck of the schedule decides about this run."""
        return await self._prechecks.check(job)

    async def wait_stopped(self, run_id: int) -> None:
        for runner in self._runners_by_kind.values():
            await runner.wait_stopped(run_id)

    def renew(self, lease: timedelta) -> None:
        """Tell the reaper that the node holds its lease for so long."""
        self._reaper.renew(lease)

    async def end_leftovers(self, runs: frozenset[int] | None = None) -> int:
        """End processes that a dead node of this state directory left running; return how many there were.

        Called before anything is started. `runs` are the runs without an outcome; None means all.
        """
        names = None if runs is None else frozenset(map(format_short_id, runs))
        return await asyncio.to_thread(self._reaper.end_leftovers, names)


@asynccontextmanager
async def open_runners(settings: RunnerSettings, clock: Clock) -> AsyncIterator[RunnerRegistry]:
    """Open the runners of one node; close them when the block is left."""
    reaper = Reaper(settings.state_dir)
    callables = CallableRunner(settings, clock)
    commands = CommandRunner(settings, reaper, clock)
    endpoints = HttpRunner(settings, clock)
    commands.open()
    callables.open()
    try:
        runners_by_kind: Mapping[TargetKind, Runner] = {
            TargetKind.COMMAND: commands,
            TargetKind.AGENT: commands,
            TargetKind.CALLABLE: callables,
            TargetKind.ENDPOINT: endpoints,
        }
        callback = settings.local_functions.override
        prechecks = PrecheckRunner(settings, reaper, clock)
        yield RunnerRegistry(
            runners_by_kind, reaper, prechecks, None if callback is None else CallbackRunner(callback, callables)
        )
    finally:
        await endpoints.close()
        callables.close()
        reaper.close()


def _unsupported_reason(target: Target) -> str:
    """Return why an agent cannot be run as a plain command; empty if it can.

    An agent that requires Docker is never run without that isolation.
    """
    spec = target.spec
    if not isinstance(spec, AgentSpec):
        return ""
    if spec.docker is not None and spec.docker.get("enabled"):
        return f'The agent "{target.name}" asks for Docker, which this version cannot do yet; it is not run without.'
    if not spec.command:
        return f'The runtime "{spec.runtime}" of the agent "{target.name}" cannot be run yet. Use runtime: command.'
    return ""
