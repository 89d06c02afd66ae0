"""Runs programs: an argument list, never a shell string, in a process group that ends with its run."""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, CommandSpec
from herdbeat.errors import RunnerError
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.platform import ControlGroup
from herdbeat.redaction import is_secret_name, register_variables
from herdbeat.runners.base import Job, mark_unstarted
from herdbeat.runners.process.child import explain_spawn_error, spawn
from herdbeat.runners.process.output import ErrorTail, OutputCapture, OutputSink
from herdbeat.runners.process.process_tree import InheritedMark, control_group_name
from herdbeat.runners.process.program import PlainPreparer, Program, ProgramPreparer, SpawnFailed
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.supervise import RunProcesses, SupervisedProcess
from herdbeat.runners.run_log import RunLog, require_no_link
from herdbeat.runners.settings import RunnerSettings
from herdbeat.threads import call_in_thread

MAX_ERROR_CHARS = 500
PROMPTS_FOLDER = "prompts"
"""The folder in the state directory for prompts that a program reads from a file."""

BASE_VARIABLES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "TERM"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}
)
"""Enough for a program to find its files, its language and other programs. None of them is a secret."""

PROMPT_PLACEHOLDERS = re.compile(r"\{prompt(?:_file)?\}")
PROMPT_PLACEHOLDER, PROMPT_FILE_PLACEHOLDER = "{prompt}", "{prompt_file}"


class ProgramRunner:
    """Runs programs for a job, with the environment of its target. The reaper ends them should the node be killed."""

    def __init__(self, settings: RunnerSettings, reaper: Reaper, clock: Clock) -> None:
        self._settings = settings
        self._reaper = reaper
        self._clock = clock
        self._unremoved_groups: list[ControlGroup] = []
        self._survivors: dict[int, str] = {}
        self._started: set[int] = set()

    def pop_survivors(self, run_id: int) -> str:
        """Return what could not be ended of a cancelled run, for the user; empty if nothing of it is left."""
        return self._survivors.pop(run_id, "")

    @contextmanager
    def open_log(self, job: Job) -> Iterator[RunLog]:
        """Open the log of the run. The reaper watches the run until the block is left.

        A cancellation that leaves the block before a program was started says so.
        """
        name = format_short_id(job.claim.run_id)
        with self._settings.open_log(job.claim.run_id, self._clock) as run_log:
            self._reaper.expect(name)
            try:
                yield run_log
            except asyncio.CancelledError as error:
                if job.claim.run_id not in self._started:
                    mark_unstarted(error, "its program was started")
                raise
            finally:
                self._started.discard(job.claim.run_id)
                self._reaper.forget(name)

    async def run(self, job: Job, program: Program, run_log: RunLog) -> tuple[int, OutputCapture]:
        """Run a program to its end; return its exit status and its output. Raises as `run_into` does."""
        capture = OutputCapture(run_log, self._settings)
        return await self.run_into(job, program, run_log, capture), capture

    async def run_into(self, job: Job, program: Program, run_log: RunLog, output: OutputSink) -> int:
        """Run a program to its end, with all that it prints going to `output`; return its exit status.

        Raises SpawnFailed if the target is at fault that it cannot be started, and RunnerError if the machine is.
        Cancelled, it ends the program with everything that it started before it raises CancelledError.
        """
        environment = program.environment
        if environment is None:
            environment = build_child_environment(job, self._settings.environ, self._reaper.node, program)
        errors = ErrorTail(output) if program.explain_exit is not None else None
        argv, folder, run = program.argv, program.folder, format_short_id(job.claim.run_id)
        with self._control_group(run) as group:
            try:
                mark = InheritedMark.build(self._reaper.node, run).to_number()
                child = spawn(argv, folder, environment, has_stdin=bool(program.stdin), mark=mark)
            except (OSError, ValueError) as error:
                raise SpawnFailed(explain_spawn_error(error, argv, folder, environment.get("PATH"))) from error
            processes = RunProcesses(child, self._reaper.node, run, group, is_sandboxed=program.is_sandboxed)
            self._started.add(job.claim.run_id)
            failpoint(Failpoint.AFTER_SPAWN)
            self._reaper.watch(run, child.identity)
            process = SupervisedProcess(
                processes,
                run_log,
                self._settings,
                output if errors is None else errors,
                stdin=program.stdin,
                interrupts_first=program.interrupts_first,
                ends_all=program.ends_all,
            )
            try:
                status = await process.wait_exit()
            finally:
                if process.survivors:
                    self._survivors[job.claim.run_id] = process.survivors
        if program.explain_exit is not None and errors is not None:
            why = await call_in_thread(program.explain_exit, status, errors.text())
            if why:
                raise SpawnFailed(why, is_config_error=True)
        return status

    @contextmanager
    def _control_group(self, run: str) -> Iterator[ControlGroup | None]:
        """Create a control group for a program, if this user may, and remove it when the block is left.

        One whose last process was killed a moment ago can be removed only a little later, with the next.
        """
        group = ControlGroup.create(control_group_name(self._reaper.node, run))
        try:
            yield group
        finally:
            groups = self._unremoved_groups if group is None else [*self._unremoved_groups, group]
            self._unremoved_groups = [each for each in groups if not each.remove()]


def build_child_environment(
    job: Job, node_environ: Mapping[str, str], node: str, program: Program | None = None
) -> dict[str, str]:
    """Return the whole environment of a child: the base list, the variables that its target names, and its marks.

    Values of the target override the program's and the node's, and the marks override all. By the marks a child can
    recognize a repeated beat, and the reaper finds the child.
    """
    spec, claim = job.target.spec, job.claim
    env_names, values = (spec.env, spec.env_values) if isinstance(spec, CommandSpec | AgentSpec) else ((), {})
    if program is not None:
        env_names, values = (*env_names, *program.env_names), {**program.env, **values}
    if env_names:  # a program may print its own environment
        register_variables(filter(is_secret_name, env_names), node_environ)
    inherited = {
        name: value
        for name, value in node_environ.items()
        if name in BASE_VARIABLES or name.startswith("LC_") or name in env_names
    }
    marks = {
        "HERDBEAT_SCHEDULE": claim.label,
        "HERDBEAT_BEAT": job.beat_key,
        "HERDBEAT_RUN": format_short_id(claim.run_id),
        "HERDBEAT_ATTEMPT": str(claim.attempt),
        "HERDBEAT_DUE_AT": claim.due_at.isoformat().replace("+00:00", "Z"),
        "HERDBEAT_FENCE": str(job.fence),
        "HERDBEAT_NODE": node,
    }
    removed = program.unset_env if program is not None else ()
    return {name: value for name, value in {**inherited, **values}.items() if name not in removed} | marks


class CommandRunner:
    """Runs commands, and agents whose runtime is a command. `preparer` surrounds the programs of agents."""

    def __init__(
        self, settings: RunnerSettings, reaper: Reaper, clock: Clock, preparer: ProgramPreparer | None = None
    ) -> None:
        self._settings = settings
        self._preparer = preparer or PlainPreparer()
        self._programs = ProgramRunner(settings, reaper, clock)

    def open(self) -> None:
        """Remove prompt files of a killed node, and make sure that exit codes are received."""
        # Some supervisors start their programs with SIGCHLD ignored. The kernel then reaps every child by itself, and
        # a command that failed would look like one that succeeded.
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        shutil.rmtree(self._settings.state_dir / PROMPTS_FOLDER, ignore_errors=True)

    async def run(self, job: Job) -> Outcome:
        spec, settings = job.target.spec, self._settings
        assert isinstance(spec, CommandSpec | AgentSpec)
        prompt_file = settings.state_dir / PROMPTS_FOLDER / f"{format_short_id(job.claim.run_id)}.md"
        folder = settings.folder(spec.working_directory)
        with self._programs.open_log(job) as run_log:
            for name in spec.env:
                if name not in settings.environ:
                    run_log.note(f"{name} is listed in env, but is not set in the environment of the node")
            with prepare_command(spec.command, job.prompt, prompt_file) as (argv, stdin):
                ends_all = isinstance(spec, AgentSpec)  # what an agent leaves behind, nobody has asked for
                program = Program(argv=argv, folder=folder, stdin=stdin, ends_all=ends_all)
                try:
                    result = await self._run(job, program, run_log)
                except SpawnFailed as error:
                    run_log.note(str(error))
                    return error.to_outcome()
        return _to_outcome(*result)

    async def _run(self, job: Job, program: Program, run_log: RunLog) -> tuple[int, OutputCapture]:
        if isinstance(job.target.spec, CommandSpec):
            return await self._programs.run(job, program, run_log)
        async with self._preparer.prepare(job, program, run_log) as prepared:
            return await self._programs.run(job, prepared, run_log)

    async def wait_stopped(self, run_id: int) -> str:
        """Return at once: `run` does not return before the program has ended."""
        return self._programs.pop_survivors(run_id)


@contextmanager
def prepare_command(command: tuple[str, ...], prompt: str, file: Path) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Give a program its prompt: in arguments with `{prompt}`, in a file for `{prompt_file}`, else on stdin.

    Yields the argument list with the prompt inserted, and the input for stdin. Only this user can read the file, and it
    is removed when the block is left. The name of the program itself is never replaced, because a prompt may contain
    text from outside, which must not choose the program. Raises RunnerError if the file cannot be written: that is not
    the target's fault.
    """
    placeholders = {placeholder for argument in command[1:] for placeholder in PROMPT_PLACEHOLDERS.findall(argument)}
    values = {PROMPT_PLACEHOLDER: prompt, PROMPT_FILE_PLACEHOLDER: str(file)}
    # In one pass, so that a prompt that contains {prompt_file} itself stays as it is.
    filled = (PROMPT_PLACEHOLDERS.sub(lambda match: values[match.group()], argument) for argument in command[1:])
    prepared = (*command[:1], *filled), b"" if placeholders else prompt.encode("utf-8", "replace")
    if PROMPT_FILE_PLACEHOLDER not in placeholders:
        yield prepared
        return
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_no_link(file.parent)
        file.unlink(missing_ok=True)
        # Created here or refused: a link that somebody puts there meanwhile is not followed.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as opened:
            opened.write(prompt.encode("utf-8", "replace"))
    except OSError as error:
        message = f"The prompt could not be written to {file}: {error.strerror}."
        raise RunnerError(message, hint="Check the disk and the permissions of the state directory.") from error
    try:
        yield prepared
    finally:
        file.unlink(missing_ok=True)


def _to_outcome(status: int, capture: OutputCapture) -> Outcome:
    succeeded = status == 0
    return Outcome(
        status=RunStatus.SUCCEEDED if succeeded else RunStatus.FAILED,
        code=status if status >= 0 else 128 - status,
        error="" if succeeded else _describe_exit(status, capture.last_error[:MAX_ERROR_CHARS]),
        output=capture.output,
        response=capture.response(),
    )


def _describe_exit(status: int, last_error: str) -> str:
    if status > 0:
        return last_error or f"exit code {status}"
    killed = f"killed by {_signal_name(-status)}"
    return f"{killed}: {last_error}" if last_error else killed


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
