"""The registry: every kind of target and its runner."""

import asyncio
import platform
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from herdbeat.clock import Clock
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.codec import to_json
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.references import MissingVariable, resolve_references, resolve_spec
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec, TargetKind
from herdbeat.redaction import find_secrets, register_secrets, register_variables
from herdbeat.runners.agents.scratch import remove_leftovers
from herdbeat.runners.base import Job, PrecheckResult, Runner
from herdbeat.runners.functions import Function
from herdbeat.runners.precheck import PrecheckRunner
from herdbeat.runners.process.program import Program, ProgramPreparer
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.runner import CommandRunner
from herdbeat.runners.python import CallableRunner
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import CONTAINERS_FOLDER, RunnerSettings
from herdbeat.threads import call_in_thread

if TYPE_CHECKING:
    from herdbeat.runners.agents.preparer import AgentPreparer
    from herdbeat.runners.agents.runner import AgentRunner
    from herdbeat.runners.http.client import EndpointCaller


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

    async def wait_stopped(self, run_id: int) -> str:
        return await self._callables.wait_stopped(run_id)


class EndpointRunner:
    """Runs endpoints. The HTTP library is imported by the first run: a fleet without endpoints does not pay for it."""

    def __init__(self, settings: RunnerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._caller: EndpointCaller | None = None
        self._open_lock = asyncio.Lock()

    async def run(self, job: Job) -> Outcome:
        return await (self._caller or await self._open()).run(job)

    @property
    def is_loaded(self) -> bool:
        return self._caller is not None

    async def load(self) -> None:
        """Import the HTTP library."""
        await self._open()

    async def wait_stopped(self, run_id: int) -> str:  # noqa: ARG002 - the shape of a runner
        """Return at once: a cancelled request closes its connection before its run ends."""
        return ""

    def close(self) -> None:
        if self._caller is not None:
            self._caller.close()

    def set_egress(self, allow: tuple[str, ...]) -> None:
        """Use another list of allowed private addresses for every request from now on."""
        self._settings = replace(self._settings, egress_allow=allow)
        if self._caller is not None:
            self._caller.set_egress(allow)

    async def _open(self) -> "EndpointCaller":
        async with self._open_lock:
            if self._caller is None:
                # In a thread, because the import takes a quarter of a second and would delay other schedules.
                await call_in_thread(import_module, "herdbeat.runners.http.client")
                from herdbeat.runners.http.client import EndpointCaller  # noqa: PLC0415

                self._caller = EndpointCaller(self._settings, self._clock)
        return self._caller


class AgentDispatcher:
    """Runs agents: those with `runtime: command` as plain programs, others by the runner of CLIs.

    That runner is imported by the first run: a fleet without agents does not pay for parsers and presets.
    """

    def __init__(self, commands: CommandRunner, open_runner: "Callable[[], AgentRunner]") -> None:
        self._commands = commands
        self._open_runner = open_runner
        self._runner: AgentRunner | None = None
        self._open_lock = asyncio.Lock()

    async def run(self, job: Job) -> Outcome:
        spec = job.target.spec
        if isinstance(spec, AgentSpec) and spec.runtime == COMMAND_RUNTIME:
            return await self._commands.run(job)
        return await (self._runner or await self._open()).run(job)

    @property
    def is_loaded(self) -> bool:
        return self._runner is not None

    async def load(self) -> None:
        """Import the runner of CLIs."""
        await self._open()

    async def wait_stopped(self, run_id: int) -> str:
        return await self._runner.wait_stopped(run_id) if self._runner is not None else ""

    async def _open(self) -> "AgentRunner":
        async with self._open_lock:
            if self._runner is None:
                await call_in_thread(import_module, "herdbeat.runners.agents.runner")
                self._runner = self._open_runner()
        return self._runner


class DeferredPreparer:
    """Prepares the programs of agents. Workspaces and isolations are imported by the first agent, as its runner is."""

    def __init__(self, settings: RunnerSettings, node: str, clock: Clock) -> None:
        self._settings = settings
        self._node = node
        self._clock = clock
        self._preparer: AgentPreparer | None = None
        self._open_lock = threading.Lock()  # obstacles are looked for in threads

    def prepare(self, job: Job, program: Program, run_log: RunLog) -> AbstractAsyncContextManager[Program]:
        return self._open().prepare(job, program, run_log)

    def pop_branch(self, run_id: int) -> str:
        """Return the branch that the workspace of a run has left, once; empty if there is none."""
        result = self._preparer.pop_result(run_id) if self._preparer is not None else None
        return "" if result is None else result.branch

    def find_obstacle(self, job: Job) -> Outcome | None:
        """Return why an agent cannot start now; None if nothing is known. Blocks."""
        return self._open().find_obstacle(job)

    def end_leftovers(self) -> int:
        """End the containers that a killed node left; return how many there were. Blocks."""
        has_notes = (self._settings.state_dir / CONTAINERS_FOLDER).is_dir()
        return self._open().end_leftovers() if has_notes else 0

    def _open(self) -> "AgentPreparer":
        with self._open_lock:
            if self._preparer is None:
                from herdbeat.runners.agents.preparer import AgentPreparer  # noqa: PLC0415

                self._preparer = AgentPreparer(self._settings, self._node, self._clock)
        return self._preparer


class RunnerRegistry:
    """A runner for every target, which delegates to the runner of its kind."""

    def __init__(
        self,
        runners_by_kind: Mapping[TargetKind, Runner],
        reaper: Reaper,
        prechecks: PrecheckRunner,
        endpoints: EndpointRunner,
        preparer: DeferredPreparer,
        variables: Mapping[str, str],
    ) -> None:
        self._runners_by_kind = runners_by_kind
        self._preparer = preparer
        self._endpoints = endpoints
        self._reaper = reaper
        self._prechecks = prechecks
        self._variables = variables

    async def run(self, job: Job) -> Outcome:
        try:
            job = resolve_job(job, self._variables)
        except MissingVariable as error:
            return describe_missing(error)
        spec = job.target.spec
        outcome = await self._runners_by_kind[spec.kind].run(job)
        if not isinstance(spec, AgentSpec):
            return outcome
        branch = self._preparer.pop_branch(job.claim.run_id)
        if not branch:
            return outcome
        # The ledger has a place for the branch of an agent that reports; a plain program has only the note.
        told = "" if outcome.agent is not None else f" Changes on branch {branch}."
        return replace(outcome, workspace=branch, note=f"{outcome.note}{told}".strip())

    def load(self, job: Job) -> Awaitable[None] | None:
        """Load what runs of this kind need; None if it is loaded.

        On a busy machine that takes longer than a short timeout, and the target has no part in it.
        """
        spec, runner = job.target.spec, self._runners_by_kind[job.target.spec.kind]
        needs_loading = isinstance(runner, EndpointRunner | AgentDispatcher) and not runner.is_loaded
        if not needs_loading or (isinstance(spec, AgentSpec) and spec.runtime == COMMAND_RUNTIME):
            return None
        assert isinstance(runner, EndpointRunner | AgentDispatcher)
        return runner.load()

    async def preload(self, kinds: Collection[TargetKind]) -> None:
        """Load what takes long to load before the first run of a fleet with such targets."""
        runner = self._runners_by_kind[TargetKind.ENDPOINT]
        if TargetKind.ENDPOINT in kinds and isinstance(runner, EndpointRunner):
            await runner.load()

    async def check(self, job: Job) -> PrecheckResult:
        """Return what the precheck of the schedule decides about this run."""
        try:
            return await self._prechecks.check(resolve_job(job, self._variables))
        except MissingVariable:
            return PrecheckResult(may_run=True)  # the run itself says what is missing

    async def find_obstacle(self, job: Job) -> Outcome | None:
        """Return why this run cannot start on this machine, as far as can be known; None if nothing is in its way."""
        try:
            job = resolve_job(job, self._variables)
        except MissingVariable as error:
            return describe_missing(error)
        if not isinstance(job.target.spec, AgentSpec):
            return None
        return await call_in_thread(self._preparer.find_obstacle, job)

    async def wait_stopped(self, run_id: int) -> str:
        return "".join([await runner.wait_stopped(run_id) for runner in self._runners_by_kind.values()])

    def set_egress(self, allow: tuple[str, ...]) -> None:
        """Let endpoints reach these private addresses from now on, and no others."""
        self._endpoints.set_egress(allow)

    @property
    def programs(self) -> Reaper:
        """What ends the programs of this node that are no runs, should it be killed."""
        return self._reaper

    def renew(self, lease: timedelta) -> None:
        """Tell the reaper that the node holds its lease for so long."""
        self._reaper.renew(lease)

    async def end_leftovers(self, runs: frozenset[int] | None = None) -> int:
        """End processes and containers that a dead node of this state directory left; return how many there were.

        Called before anything is started. `runs` are the runs without an outcome; None means all.
        """
        names = None if runs is None else frozenset(map(format_short_id, runs))
        containers = await call_in_thread(self._preparer.end_leftovers)
        return containers + await call_in_thread(self._reaper.end_leftovers, names)


@asynccontextmanager
async def open_runners(
    settings: RunnerSettings, clock: Clock, preparer: ProgramPreparer | None = None
) -> AsyncIterator[RunnerRegistry]:
    """Open the runners of one node; close them when the block is left. `preparer` surrounds the programs of agents."""
    reaper = Reaper(settings.state_dir)
    agent_preparer = DeferredPreparer(settings, reaper.node, clock)
    preparer = preparer or agent_preparer
    callables = CallableRunner(settings, clock)
    commands = CommandRunner(settings, reaper, clock, preparer)

    def open_agent_runner() -> "AgentRunner":
        from herdbeat.runners.agents.runner import AgentRunner  # noqa: PLC0415

        return AgentRunner(settings, reaper, clock, preparer)

    endpoints = EndpointRunner(settings, clock)
    runners_by_kind: dict[TargetKind, Runner] = {
        TargetKind.COMMAND: commands,
        TargetKind.AGENT: AgentDispatcher(commands, open_agent_runner),
        TargetKind.CALLABLE: callables,
        TargetKind.ENDPOINT: endpoints,
    }
    if settings.local_functions.override is not None:
        runners_by_kind = dict.fromkeys(TargetKind, CallbackRunner(settings.local_functions.override, callables))
    commands.open()
    remove_leftovers(settings.state_dir)
    callables.open()
    try:
        prechecks = PrecheckRunner(settings, reaper, clock)
        variables = settings.environ if settings.variables is None else settings.variables
        yield RunnerRegistry(runners_by_kind, reaper, prechecks, endpoints, agent_preparer, variables)
    finally:
        endpoints.close()
        callables.close()
        reaper.close()


# References: the values of variables come into a job right before it runs. No log and no record shows them.


def resolve_job(job: Job, environ: Mapping[str, str]) -> Job:
    """Return the job with the values that this machine has for its references. Raises MissingVariable.

    A job without any, as most are, comes back as it is.
    """
    target, run_spec = job.target, job.run_spec
    if not (target.spec.variables or run_spec.variables or job.prompt_references):
        return job
    names = {*target.spec.variables, *run_spec.variables, *job.prompt_references}
    register_variables(names, environ)
    spec = resolve_spec(target.spec, target.spec.variables, environ)
    register_secrets(find_secrets(to_json(spec)))
    return replace(
        job,
        target=replace(target, spec=spec),
        run_spec=resolve_spec(run_spec, run_spec.variables, environ),
        prompt=resolve_references(job.prompt, job.prompt_references, environ),
        prompt_references=(),
    )


def describe_missing(error: MissingVariable) -> Outcome:
    """Return the outcome of a run that was not tried, because this machine lacks a variable."""
    text = f"The environment variable {error.name} is not set on {platform.node()}. {error.hint}"
    return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.CONFIG_ERROR, error=text)
