"""Every kind of target and its runner, in one plain table."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from herdbeat.clock import Clock
from herdbeat.domain.ids import short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, Target, TargetKind
from herdbeat.runners.base import Checked, Job, Runner
from herdbeat.runners.callable import CallableRunner
from herdbeat.runners.command import CommandRunner
from herdbeat.runners.guardian import Guardian
from herdbeat.runners.http.runner import HttpRunner
from herdbeat.runners.precheck import Prechecks
from herdbeat.runners.settings import RunnerSettings
from herdbeat.runners.told import ToldRunner


class Runners:
    """Runs any target, by its kind. Itself a Runner."""

    def __init__(
        self,
        kinds: Mapping[TargetKind, Runner],
        guardian: Guardian,
        prechecks: Prechecks,
        instead: Runner | None = None,
    ) -> None:
        self._kinds = kinds
        self._guardian = guardian
        self._instead = instead
        self._prechecks = prechecks

    async def run(self, job: Job) -> Outcome:
        if self._instead is not None:
            return await self._instead.run(job)
        why = _refusal(job.target)
        if why:
            return Outcome(status=RunStatus.FAILED, error=why)
        return await self._kinds[job.target.spec.kind].run(job)

    async def check(self, job: Job) -> Checked:
        """What the precheck of its schedule says to this run."""
        return await self._prechecks.check(job)

    async def ended(self, run_id: int) -> None:
        for runner in self._kinds.values():
            await runner.ended(run_id)

    def renew(self, lease: timedelta) -> None:
        """Tell the guardian that the node holds its lease for so long."""
        self._guardian.renew(lease)

    async def end_leftovers(self, runs: frozenset[int] | None = None) -> int:
        """End what a dead predecessor has left running, before anything is started; `runs` are those without an end."""
        names = None if runs is None else frozenset(map(short_id, runs))
        return await asyncio.to_thread(self._guardian.end_leftovers, names)


@asynccontextmanager
async def open_runners(settings: RunnerSettings, clock: Clock) -> AsyncIterator[Runners]:
    """The runners of one node, until it is done."""
    guardian = Guardian(settings.state_dir)
    callables = CallableRunner(settings, clock)
    commands = CommandRunner(settings, guardian, clock)
    endpoints = HttpRunner(settings, clock)
    commands.open()
    callables.open()
    try:
        kinds: Mapping[TargetKind, Runner] = {
            TargetKind.COMMAND: commands,
            TargetKind.AGENT: commands,
            TargetKind.CALLABLE: callables,
            TargetKind.ENDPOINT: endpoints,
        }
        told = settings.at_hand.instead
        prechecks = Prechecks(settings, guardian, clock)
        yield Runners(kinds, guardian, prechecks, None if told is None else ToldRunner(told, callables))
    finally:
        await endpoints.close()
        callables.close()
        guardian.close()


def _refusal(target: Target) -> str:
    """Why an agent cannot be run as a plain command. Never with less isolation than its file asks for."""
    spec = target.spec
    if not isinstance(spec, AgentSpec):
        return ""
    if spec.docker is not None and spec.docker.get("enabled"):
        return f'The agent "{target.name}" asks for Docker, which this version cannot do yet; it is not run without.'
    if not spec.command:
        return f'The runtime "{spec.runtime}" of the agent "{target.name}" cannot be run yet. Use runtime: command.'
    return ""
