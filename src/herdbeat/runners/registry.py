"""Every kind of target and its runner, in one plain table."""

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

# Runs any target by telling one function of the process about it: the way of those who bring a runner of their own.


class CallbackRunner:
    """The function gets the Job. What it returns or raises counts as with any callable."""

    def __init__(self, function: Function, callables: CallableRunner) -> None:
        self._function = function
        self._callables = callables

    async def run(self, job: Job) -> Outcome:
        call = partial(self._function.call, job)
        return await self._callables.attempt(job, self._callables.call(job, call, is_async=self._function.is_async))

    async def wait_stopped(self, run_id: int) -> None:
        await self._callables.wait_stopped(run_id)


class RunnerRegistry:
    """Runs any target, by its kind. Itself a Runner."""

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
        """What the precheck of its schedule says to this run."""
        return await self._prechecks.check(job)

    async def wait_stopped(self, run_id: int) -> None:
        for runner in self._runners_by_kind.values():
            await runner.wait_stopped(run_id)

    def renew(self, lease: timedelta) -> None:
        """Tell the guardian that the node holds its lease for so long."""
        self._reaper.renew(lease)

    async def end_leftovers(self, runs: frozenset[int] | None = None) -> int:
        """End what a dead predecessor has left running, before anything is started; `runs` are those without an end."""
        names = None if runs is None else frozenset(map(format_short_id, runs))
        return await asyncio.to_thread(self._reaper.end_leftovers, names)


@asynccontextmanager
async def open_runners(settings: RunnerSettings, clock: Clock) -> AsyncIterator[RunnerRegistry]:
    """The runners of one node, until it is done."""
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
    """Why an agent cannot be run as a plain command. Never with less isolation than its file asks for."""
    spec = target.spec
    if not isinstance(spec, AgentSpec):
        return ""
    if spec.docker is not None and spec.docker.get("enabled"):
        return f'The agent "{target.name}" asks for Docker, which this version cannot do yet; it is not run without.'
    if not spec.command:
        return f'The runtime "{spec.runtime}" of the agent "{target.name}" cannot be run yet. Use runtime: command.'
    return ""
