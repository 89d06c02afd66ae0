"""A schedule's `precheck`: a small program that is asked right before a run whether there is anything to do.

Exit 0 lets it run, 1 declines. Anything else is a broken check, which must not silence a schedule: it runs,
and the run says so.
"""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.target import AgentSpec, CommandSpec, TargetSpec
from herdbeat.durations import format_duration
from herdbeat.runners.base import Job, PrecheckResult
from herdbeat.runners.process.child import SupervisedProcess, spawn
from herdbeat.runners.process.environment import build_child_environment
from herdbeat.runners.process.output import OutputCapture
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.spawn_errors import explain_spawn_error
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings

MAX_PRECHECK_TIME = timedelta(seconds=30)
"""A check may not take longer, nor longer than a whole run of its schedule."""

DECLINED_EXIT_CODE = 1


class PrecheckRunner:
    """Asks prechecks, in the folder and with the environment of their target; what they print is in the run's log."""

    def __init__(self, settings: RunnerSettings, reaper: Reaper, clock: Clock) -> None:
        self._settings = settings
        self._reaper = reaper
        self._clock = clock

    async def check(self, job: Job) -> PrecheckResult:
        """May it run? Cancelled, the check is ended with its group before the cancellation goes through."""
        run_id, name = job.claim.run_id, format_short_id(job.claim.run_id)
        with closing(RunLog(self._settings.state_dir, run_id, self._clock, self._settings.log_cap)) as run_log:
            self._reaper.expect(name)
            try:
                checked = await self._run_check(job, run_log)
            finally:
                self._reaper.forget(name)
            if checked.note:
                run_log.note(checked.note)
            elif not checked.may_run:
                run_log.note("the precheck declined")
        return checked

    async def _run_check(self, job: Job, run_log: RunLog) -> PrecheckResult:
        argv, folder = job.claim.plan.policies.precheck, self._folder(job.target.spec)
        env_names, values = _target_environment(job.target.spec)
        environment = build_child_environment(self._settings.environ, env_names, values, job, self._reaper.node)
        try:
            child = spawn(argv, folder, environment, has_stdin=False)
        except (OSError, ValueError) as error:
            return _broken_check(explain_spawn_error(error, argv, folder, environment.get("PATH")))
        self._reaper.watch(format_short_id(job.claim.run_id), child.identity)
        capture = OutputCapture(run_log, self._settings)
        limit = min(job.claim.plan.policies.timeout, MAX_PRECHECK_TIME)
        try:
            async with asyncio.timeout(limit.total_seconds()):
                status = await SupervisedProcess(child, capture, run_log, self._settings, b"").wait_exit()
        except TimeoutError:
            return _broken_check(f"it took longer than {format_duration(limit)}")
        return _interpret_exit(status, capture.last_error)

    def _folder(self, spec: TargetSpec) -> str:
        """Where its target works; of one that works nowhere, beside the fleet's own file."""
        if isinstance(spec, CommandSpec | AgentSpec):
            return self._settings.folder(spec.working_directory)
        return str(next(iter(self._settings.module_folders), self._settings.state_dir.parent))


def _target_environment(spec: TargetSpec) -> tuple[tuple[str, ...], Mapping[str, str]]:
    return (spec.env, spec.env_values) if isinstance(spec, CommandSpec | AgentSpec) else ((), {})


def _interpret_exit(status: int, last_error: str) -> PrecheckResult:
    if status in (0, DECLINED_EXIT_CODE):
        return PrecheckResult(may_run=status == 0)
    detail = f": {last_error}" if last_error else ""
    return _broken_check(f"exit code {status}{detail}" if status > 0 else f"it was killed by signal {-status}{detail}")


def _broken_check(why: str) -> PrecheckResult:
    return PrecheckResult(may_run=True, note=f"the precheck is broken, so it ran without: {why}"[:500])
