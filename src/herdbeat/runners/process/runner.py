"""Runs a program: an argv, never a shell string, in a process group that ends with its run."""

import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, CommandSpec
from herdbeat.errors import RunnerError
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.runners.base import Job
from herdbeat.runners.process.child import SupervisedProcess, spawn
from herdbeat.runners.process.environment import build_child_environment, find_missing_variables
from herdbeat.runners.process.output import OutputCapture
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.spawn_errors import explain_spawn_error
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings

# Where a program finds its prompt: on stdin, in an argument, or in a file of its own.


PROMPT_PLACEHOLDERS = re.compile(r"\{prompt(?:_file)?\}")
PROMPT_PLACEHOLDER, PROMPT_FILE_PLACEHOLDER = "{prompt}", "{prompt_file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """An argv with its prompt in place, and what is left to say on stdin."""

    argv: tuple[str, ...]
    stdin: bytes


@contextmanager
def prepare_command(command: tuple[str, ...], prompt: str, file: Path) -> Iterator[PreparedCommand]:
    """The command, ready to start. A prompt file can be read by us alone, and is gone afterwards.

    Raises RunnerError if the file cannot be written: that is not the target's fault.

    The program's own name is never replaced: words from outside must not choose what is run.
    """
    placeholders = {placeholder for argument in command[1:] for placeholder in PROMPT_PLACEHOLDERS.findall(argument)}
    values = {PROMPT_PLACEHOLDER: prompt, PROMPT_FILE_PLACEHOLDER: str(file)}
    # One pass, so that a prompt that itself says {prompt_file} stays as it is.
    filled = (PROMPT_PLACEHOLDERS.sub(lambda found: values[found.group()], argument) for argument in command[1:])
    stdin = b"" if placeholders else prompt.encode("utf-8", "replace")
    result = PreparedCommand(argv=(*command[:1], *filled), stdin=stdin)
    if PROMPT_FILE_PLACEHOLDER not in placeholders:
        yield result
        return
    try:
        _write_prompt(file, prompt)
    except OSError as error:
        message = f"The prompt could not be written to {file}: {error.strerror}."
        raise RunnerError(message, hint="Look at the disk and the permissions of the state directory.") from error
    try:
        yield result
    finally:
        file.unlink(missing_ok=True)


def _write_prompt(file: Path, prompt: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(prompt, encoding="utf-8", errors="replace")


MAX_ERROR_CHARS = 500
PROMPTS_FOLDER = "prompts"
"""The folder for prompts that a program reads from a file, in the state directory."""


class CommandRunner:
    """Runs commands, and agents that are a command."""

    def __init__(self, settings: RunnerSettings, reaper: Reaper, clock: Clock) -> None:
        self._settings = settings
        self._reaper = reaper
        self._clock = clock

    def open(self) -> None:
        """Remove the prompts that a killed node could not, and see that exit codes reach us."""
        # Some supervisors start their programs with SIGCHLD ignored. The kernel then reaps every child by itself, and
        # a command that failed would look like one that succeeded.
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        shutil.rmtree(self._settings.state_dir / PROMPTS_FOLDER, ignore_errors=True)

    async def run(self, job: Job) -> Outcome:
        spec = job.target.spec
        assert isinstance(spec, CommandSpec | AgentSpec)
        run_id, folder = job.claim.run_id, self._settings.state_dir
        name = format_short_id(run_id)
        with closing(RunLog(folder, run_id, self._clock, self._settings.log_cap)) as run_log:
            for each in find_missing_variables(self._settings.environ, spec.env):
                run_log.note(f"{each} is named in env, but the node itself does not have it")
            with prepare_command(spec.command, job.prompt, folder / PROMPTS_FOLDER / f"{name}.md") as prepared:
                self._reaper.expect(name)
                try:
                    return await self._run(job, spec, prepared, run_log)
                finally:
                    self._reaper.forget(name)

    async def wait_stopped(self, run_id: int) -> None:
        """At once: a program's run does not return before its program has ended."""

    async def _run(
        self, job: Job, spec: CommandSpec | AgentSpec, prepared: PreparedCommand, run_log: RunLog
    ) -> Outcome:
        environment = build_child_environment(self._settings.environ, spec.env, spec.env_values, job, self._reaper.node)
        folder = self._settings.folder(spec.working_directory)
        try:
            child = spawn(prepared.argv, folder, environment, has_stdin=bool(prepared.stdin))
            failpoint(Failpoint.AFTER_SPAWN)
        except (OSError, ValueError) as error:
            run_log.note(why := explain_spawn_error(error, prepared.argv, folder, environment.get("PATH")))
            return Outcome(status=RunStatus.FAILED, error=why)
        self._reaper.watch(format_short_id(job.claim.run_id), child.identity)
        capture = OutputCapture(run_log, self._settings)
        supervised = SupervisedProcess(child, capture, run_log, self._settings, prepared.stdin)
        status = await supervised.wait_exit()
        return _to_outcome(status, capture)


def _to_outcome(status: int, capture: OutputCapture) -> Outcome:
    if status == 0:
        return Outcome(status=RunStatus.SUCCEEDED, code=0, output=capture.output, response=capture.response())
    return Outcome(
        status=RunStatus.FAILED,
        code=status if status > 0 else 128 - status,
        error=_describe_exit(status, capture.last_error),
        output=capture.output,
        response=capture.response(),
    )


def _describe_exit(status: int, last_error: str) -> str:
    if status > 0:
        return last_error[:MAX_ERROR_CHARS] or f"exit code {status}"
    killed = f"killed by {_signal_name(-status)}"
    return f"{killed}: {last_error[:MAX_ERROR_CHARS]}" if last_error else killed


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
