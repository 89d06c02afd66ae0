"""Prechecks: a small program of a schedule that decides right before a run whether there is work to do.

Exit code 0 lets the run start, 1 declines it. Anything else means that the check itself is broken. A broken check must
not silence its schedule, so the run starts, with a note.
"""

import asyncio
from datetime import timedelta

from herdbeat.clock import Clock
from herdbeat.domain.policies import Policies
from herdbeat.domain.references import MissingVariable, resolve_references
from herdbeat.domain.target import AgentSpec, CommandSpec, TargetSpec
from herdbeat.durations import format_duration
from herdbeat.redaction import register_variables
from herdbeat.runners.base import Job, PrecheckResult
from herdbeat.runners.process.program import Program, SpawnFailed
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.runner import ProgramRunner
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings

MAX_PRECHECK_TIME = timedelta(seconds=30)
"""The time limit of a check, unless the timeout of its schedule is shorter."""

DECLINED_EXIT_CODE = 1


class PrecheckRunner:
    """Runs prechecks, in the folder and with the environment of their target. Their output goes to the run's log."""

    def __init__(self, settings: RunnerSettings, reaper: Reaper, clock: Clock) -> None:
        self._settings = settings
        self._programs = ProgramRunner(settings, reaper, clock)

    async def check(self, job: Job) -> PrecheckResult:
        """Return whether the run may start. Cancelled, it ends the check with its process group first."""
        with self._programs.open_log(job) as run_log:
            result = await self._run_check(job, run_log)
            if result.note:
                run_log.note(result.note)
            elif not result.may_run:
                run_log.note("the precheck declined")
        return result

    async def _run_check(self, job: Job, run_log: RunLog) -> PrecheckResult:
        policies = job.claim.plan.policies
        try:
            argv = self._resolve(policies)
        except MissingVariable as error:
            return _broken_check(f"{error.message} {error.hint}")
        check = Program(argv=argv, folder=self._folder(job.target.spec))
        limit = min(policies.timeout, MAX_PRECHECK_TIME)
        try:
            async with asyncio.timeout(limit.total_seconds()):
                status, capture = await self._programs.run(job, check, run_log)
        except SpawnFailed as error:
            return _broken_check(str(error))
        except TimeoutError:
            return _broken_check(f"it took longer than {format_duration(limit)}")
        if status in (0, DECLINED_EXIT_CODE):
            return PrecheckResult(may_run=status == 0)
        how = f"exit code {status}" if status > 0 else f"it was killed by signal {-status}"
        return _broken_check(f"{how}: {capture.last_error}" if capture.last_error else how)

    def _resolve(self, policies: Policies) -> tuple[str, ...]:
        settings = self._settings
        variables = settings.environ if settings.variables is None else settings.variables
        register_variables(policies.variables, variables)
        return resolve_references(policies.precheck, policies.variables, variables)

    def _folder(self, spec: TargetSpec) -> str:
        """Return the working directory of the target; for one that has none, the folder of the fleet file."""
        if isinstance(spec, CommandSpec | AgentSpec):
            return self._settings.folder(spec.working_directory)
        return str(next(iter(self._settings.module_folders), self._settings.state_dir.parent))


def _broken_check(why: str) -> PrecheckResult:
    return PrecheckResult(may_run=True, note=f"the precheck failed, and the beat ran without it: {why}"[:500])
