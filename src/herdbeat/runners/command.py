"""Runs a program: an argv, never a shell string, in a process group that ends with its run."""

import shutil
import signal
from contextlib import closing

from herdbeat.clock import Clock
from herdbeat.crashpoints import CrashPoint, pass_by
from herdbeat.domain.ids import short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, CommandSpec
from herdbeat.runners.attended import Attended
from herdbeat.runners.base import Job
from herdbeat.runners.capture import Capture
from herdbeat.runners.child import spawn
from herdbeat.runners.environment import child_environment, missing
from herdbeat.runners.guardian import Guardian
from herdbeat.runners.log import RunLog
from herdbeat.runners.obstacles import obstacle
from herdbeat.runners.prompt import Placed, placed
from herdbeat.runners.settings import RunnerSettings

ERROR_LENGTH = 500
PROMPTS = "prompts"
"""The folder for prompts that a program reads from a file, in the state directory."""


class CommandRunner:
    """Runs commands, and agents that are a command."""

    def __init__(self, settings: RunnerSettings, guardian: Guardian, clock: Clock) -> None:
        self._settings = settings
        self._guardian = guardian
        self._clock = clock

    def open(self) -> None:
        """Remove the prompts that a killed node could not, and see that exit codes reach us."""
        # Some supervisors start their programs with SIGCHLD ignored. The kernel then reaps every child by itself, and
        # a command that failed would look like one that succeeded.
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        shutil.rmtree(self._settings.state_dir / PROMPTS, ignore_errors=True)

    async def run(self, job: Job) -> Outcome:
        spec = job.target.spec
        assert isinstance(spec, CommandSpec | AgentSpec)
        run_id, folder = job.claim.run_id, self._settings.state_dir
        name = short_id(run_id)
        with closing(RunLog(folder, run_id, self._clock, self._settings.log_cap)) as words:
            for each in missing(self._settings.environ, spec.env):
                words.note(f"{each} is named in env, but the node itself does not have it")
            with placed(spec.command, job.prompt, folder / PROMPTS / f"{name}.md") as invocation:
                self._guardian.expect(name)
                try:
                    return await self._run(job, spec, invocation, words)
                finally:
                    self._guardian.forget(name)

    async def ended(self, run_id: int) -> None:
        """At once: a program's run does not return before its program has ended."""

    async def _run(self, job: Job, spec: CommandSpec | AgentSpec, invocation: Placed, words: RunLog) -> Outcome:
        environment = child_environment(self._settings.environ, spec.env, spec.env_values, job, self._guardian.node)
        folder = self._settings.folder(spec.working_directory)
        try:
            child = spawn(invocation.argv, folder, environment, has_stdin=bool(invocation.stdin))
            pass_by(CrashPoint.AFTER_SPAWN)
        except (OSError, ValueError) as error:
            words.note(why := obstacle(error, invocation.argv, folder, environment.get("PATH")))
            return Outcome(status=RunStatus.FAILED, error=why)
        self._guardian.watch(short_id(job.claim.run_id), child.identity)
        capture = Capture(words, self._settings)
        attended = Attended(child, capture, words, self._settings, invocation.stdin)
        status = await attended.until_ended()
        return _outcome(status, capture)


def _outcome(status: int, capture: Capture) -> Outcome:
    if status == 0:
        return Outcome(status=RunStatus.SUCCEEDED, code=0, output=capture.output, response=capture.response())
    return Outcome(
        status=RunStatus.FAILED,
        code=status if status > 0 else 128 - status,
        error=_reason(status, capture.last_error),
        output=capture.output,
        response=capture.response(),
    )


def _reason(status: int, last_error: str) -> str:
    if status > 0:
        return last_error[:ERROR_LENGTH] or f"exit code {status}"
    killed = f"killed by {_signal_name(-status)}"
    return f"{killed}: {last_error[:ERROR_LENGTH]}" if last_error else killed


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
