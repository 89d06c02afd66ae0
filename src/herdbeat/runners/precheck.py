"""A schedule's `precheck`: a small program that is asked right before a run whether there is anything to do.

Exit 0 lets it run, 1 declines. Anything else is a broken check, which must not silence a schedule: it runs,
and the run says so.
"""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta

from herdbeat.clock import Clock
from herdbeat.domain.ids import short_id
from herdbeat.domain.target import AgentSpec, CommandSpec, TargetSpec
from herdbeat.durations import format_duration
from herdbeat.runners.attended import Attended
from herdbeat.runners.base import Checked, Job
from herdbeat.runners.capture import Capture
from herdbeat.runners.child import spawn
from herdbeat.runners.environment import child_environment
from herdbeat.runners.guardian import Guardian
from herdbeat.runners.log import RunLog
from herdbeat.runners.obstacles import obstacle
from herdbeat.runners.settings import RunnerSettings

LONGEST = timedelta(seconds=30)
"""A check may not take longer, nor longer than a whole run of its schedule."""

DECLINED = 1


class Prechecks:
    """Asks prechecks, in the folder and with the environment of their target; what they print is in the run's log."""

    def __init__(self, settings: RunnerSettings, guardian: Guardian, clock: Clock) -> None:
        self._settings = settings
        self._guardian = guardian
        self._clock = clock

    async def check(self, job: Job) -> Checked:
        """May it run? Cancelled, the check is ended with its group before the cancellation goes through."""
        run_id, name = job.claim.run_id, short_id(job.claim.run_id)
        with closing(RunLog(self._settings.state_dir, run_id, self._clock, self._settings.log_cap)) as words:
            self._guardian.expect(name)
            try:
                checked = await self._ask(job, words)
            finally:
                self._guardian.forget(name)
            if checked.note:
                words.note(checked.note)
            elif not checked.may_run:
                words.note("the precheck declined")
        return checked

    async def _ask(self, job: Job, words: RunLog) -> Checked:
        argv, folder = job.claim.plan.policies.precheck, self._folder(job.target.spec)
        named, values = _environment(job.target.spec)
        environment = child_environment(self._settings.environ, named, values, job, self._guardian.node)
        try:
            child = spawn(argv, folder, environment, has_stdin=False)
        except (OSError, ValueError) as error:
            return _broken(obstacle(error, argv, folder, environment.get("PATH")))
        self._guardian.watch(short_id(job.claim.run_id), child.identity)
        capture = Capture(words, self._settings)
        limit = min(job.claim.plan.policies.timeout, LONGEST)
        try:
            async with asyncio.timeout(limit.total_seconds()):
                status = await Attended(child, capture, words, self._settings, b"").until_ended()
        except TimeoutError:
            return _broken(f"it took longer than {format_duration(limit)}")
        return _judged(status, capture.last_error)

    def _folder(self, spec: TargetSpec) -> str:
        """Where its target works; of one that works nowhere, beside the fleet's own file."""
        if isinstance(spec, CommandSpec | AgentSpec):
            return self._settings.folder(spec.working_directory)
        return str(next(iter(self._settings.module_folders), self._settings.state_dir.parent))


def _environment(spec: TargetSpec) -> tuple[tuple[str, ...], Mapping[str, str]]:
    return (spec.env, spec.env_values) if isinstance(spec, CommandSpec | AgentSpec) else ((), {})


def _judged(status: int, last_error: str) -> Checked:
    if status in (0, DECLINED):
        return Checked(may_run=status == 0)
    said = f": {last_error}" if last_error else ""
    return _broken(f"exit code {status}{said}" if status > 0 else f"it was killed by signal {-status}{said}")


def _broken(why: str) -> Checked:
    return Checked(may_run=True, note=f"the precheck is broken, so it ran without: {why}"[:500])
