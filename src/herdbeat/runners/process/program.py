"""A program to start for a run, and the seam at which a workspace or an isolation may surround it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.isolation import IsolationSpec
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.runners.base import Job
from herdbeat.runners.run_log import RunLog


class SpawnFailed(Exception):
    """The program could not be started, because of the target. Its text says why, for the user.

    With `is_config_error`, what the target asks for is not available: the run did not fail, it was not tried.
    """

    def __init__(self, message: str, *, is_config_error: bool = False) -> None:
        super().__init__(message)
        self.is_config_error = is_config_error

    def to_outcome(self) -> Outcome:
        if self.is_config_error:
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.CONFIG_ERROR, error=str(self))
        return Outcome(status=RunStatus.FAILED, error=str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start for a run: arguments, folder, input, and changes to the environment of its target.

    `env` is added where the target itself sets no value, `env_names` are taken from the node, `unset_env` is removed.
    `interrupts_first`: when cancelled, it gets INT before TERM. `ends_all`: nothing that it has started outlives it,
    also if it ends by itself. `scratch_dir` is a folder of this run alone that the
    program reads; whatever confines the program has to keep it readable.

    What surrounds a program sets the last three. `environment` is the whole environment, instead of the target's with
    changes. `is_sandboxed`: the started process is not the program but keeps it confined, and a signal would end both,
    so only the processes below it are asked to end. `explain_exit` gets the exit status and the end of stderr,
    and says why the confinement failed, if it did.
    """

    argv: tuple[str, ...]
    folder: str
    stdin: bytes = field(default=b"", repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_names: tuple[str, ...] = ()
    unset_env: tuple[str, ...] = ()
    interrupts_first: bool = False
    ends_all: bool = False
    scratch_dir: str = ""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    is_sandboxed: bool = False
    explain_exit: Callable[[int, str], str] | None = field(default=None, repr=False)


def effective_workspace(job: Job) -> WorkspaceSpec:
    """Return where a run works: as its schedule says, else its agent."""
    spec = job.target.spec
    own = spec.workspace if isinstance(spec, AgentSpec) else None
    return job.run_spec.workspace or own or WorkspaceSpec()


def effective_isolation(job: Job) -> IsolationSpec | None:
    """Return how a run is isolated: as its schedule says, else its agent; None if not at all.

    Raises SpawnFailed for an agent that another version has stored with its `docker` block only.
    """
    spec = job.target.spec
    if not isinstance(spec, AgentSpec):
        return None
    isolation = job.run_spec.isolation or spec.isolation
    if isolation is None and spec.docker is not None and spec.docker.get("enabled"):
        message = f'The agent "{job.target.name}" needs Docker and was stored by an older version. Run herdbeat apply.'
        raise SpawnFailed(message, is_config_error=True)
    return isolation


class ProgramPreparer(Protocol):
    """Decides where and in what an agent's program runs: in another folder, inside a sandbox or a container."""

    def prepare(self, job: Job, program: Program, run_log: RunLog) -> AbstractAsyncContextManager[Program]:
        """Yield the program to start instead; clean up when the block is left, also after a cancellation.

        Raises SpawnFailed if what the target asks for is not available: then nothing is started.
        """
        ...


class PlainPreparer:
    """Starts every program as it is, in the working directory of its target. Refuses one that needs isolation."""

    @asynccontextmanager
    async def prepare(self, job: Job, program: Program, run_log: RunLog) -> AsyncIterator[Program]:  # noqa: ARG002
        workspace = effective_workspace(job)
        if effective_isolation(job) is not None or workspace.type is not WorkspaceType.SHARED:
            message = f'The agent "{job.target.name}" needs a workspace or an isolation, which is not available here.'
            raise SpawnFailed(message, is_config_error=True)
        yield program
