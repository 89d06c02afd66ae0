"""The contract of executors, which is all that the scheduler knows of an engine.

An engine starts one thing for us: `herdbeat exec RUN`. That process takes the run, runs it as a node would, and
reports to our server. So an executor only submits, reads a status, cancels and lists.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from herdbeat.domain.executor import ExecutorKind, ExecutorSettings, Resources
from herdbeat.domain.isolation import IsolationSpec
from herdbeat.domain.target import AgentSpec, CommandSpec, TargetSpec
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.errors import HerdbeatError

MAX_NAME_CHARS = 63
"""A label of DNS, which is what Kubernetes accepts."""

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_STORE = "herdbeat.dev/store"
LABEL_RUN = "herdbeat.dev/run"
MANAGED_BY = "herdbeat"

_JOB_NAME_PATTERN = re.compile(r"hb-(?P<store>[a-z0-9]{1,20})-(?P<run>[0-9]{1,19})-(?P<random>[0-9a-f]{8})")


def make_job_name(store_id: str, run_id: int, random: str) -> str:
    """Return the name of the job of a run, `hb-<store id>-<run>-<8 hex digits>`. It is stored before `submit`."""
    name = f"hb-{store_id}-{run_id}-{random}"
    assert _JOB_NAME_PATTERN.fullmatch(name), f"{name} is no name of a job"
    assert len(name) <= MAX_NAME_CHARS
    return name


def build_job_name_prefix(store_id: str) -> str:
    """Return how the names of all jobs of a ledger begin."""
    return f"hb-{store_id}-"


def parse_job_name(name: str) -> tuple[str, int] | None:
    """Return the store id and the run that a job is named after; None if it is not one of ours."""
    match = _JOB_NAME_PATTERN.fullmatch(name)
    return None if match is None else (match["store"], int(match["run"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJob:
    """One run for an engine to start.

    `argv` is the whole command line of `herdbeat exec`. Nothing of it is secret: engines show it to all their users.
    `token` is the one-run token for engines that hand it over as a secret of their own; it belongs into the file
    `token_file` of the process, and nowhere else. It is empty where the operator has put a token on the machines.
    `timeout` is how long the program may take once it has begun.
    """

    name: str
    run_id: int
    store_id: str
    argv: tuple[str, ...]
    resources: Resources
    timeout: timedelta
    token_file: str
    token: str = field(default="", repr=False)

    @property
    def labels(self) -> Mapping[str, str]:
        """What the job is marked with at the engine: a job of that name without them is not ours."""
        return {LABEL_MANAGED_BY: MANAGED_BY, LABEL_STORE: self.store_id, LABEL_RUN: str(self.run_id)}


class RemoteState(StrEnum):
    PENDING = "pending"  # the engine has the job, and has not begun it
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"  # the engine does not know the job, or could not be asked


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStatus:
    """What an engine says about a job. `reason` is a sentence for the user, in the engine's own words if it has any.

    `code` is the exit code of a job that has ended, if the engine reports it. `where` names the machine. An engine that
    could not be asked `is_reachable` no longer; an unknown job is a lost one only if it was reachable.
    """

    state: RemoteState
    code: int | None = None
    reason: str = ""
    where: str = ""
    is_reachable: bool = True


class ExecutorError(HerdbeatError):
    """The engine could not do what was requested.

    `is_permanent` if trying again cannot help: the job was refused, and was not started.
    """

    def __init__(self, message: str, *, hint: str = "", is_permanent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_permanent = is_permanent


class Executor(Protocol):
    """An engine that starts `herdbeat exec`. Used by one event loop; every call has a time limit of its own."""

    async def submit(self, job: RemoteJob) -> None:
        """Let the engine start the job once. A job that exists already is a success if it has our labels.

        Raises ExecutorError: permanent if the engine refuses the job, else try again.
        """
        ...

    async def get_status(self, name: str) -> RemoteStatus:
        """Return what the engine says about a job. Never raises: an engine that does not answer is a status, too."""
        ...

    async def cancel(self, name: str) -> None:
        """Let the engine end a job and forget what it keeps for it. One that is unknown or has ended is no error.

        Raises ExecutorError if the engine could not be asked.
        """
        ...

    async def list_leftovers(self, store_id: str) -> list[str]:
        """Return the names of the jobs of the ledger with this store id that have not ended.

        Raises ExecutorError if the engine could not be asked.
        """
        ...

    async def check(self) -> str:
        """Return a sentence about the engine, such as its version. Raises ExecutorError with what is wrong."""
        ...

    async def close(self) -> None: ...


# Placement: which executor runs a target, and which targets have to stay on the node. Pure.

NO_RESOURCES = Resources()


def choose_executor(spec: TargetSpec, settings: ExecutorSettings, labels: Collection[str]) -> ExecutorKind:
    """Return the executor of a target: its own, else that of a label of the node, else the node itself."""
    if not isinstance(spec, AgentSpec | CommandSpec):
        return ExecutorKind.LOCAL
    if spec.executor is not None:
        return spec.executor
    for kind in settings.kinds:
        access = settings.access(kind)
        if access is not None and access.label in labels and not find_spec_obstacle(spec, kind):
            return kind
    return ExecutorKind.LOCAL


def is_remote(spec: TargetSpec) -> bool:
    """Whether a target says that its runs happen on an engine."""
    return isinstance(spec, AgentSpec | CommandSpec) and spec.executor not in (None, ExecutorKind.LOCAL)


def find_spec_obstacle(spec: TargetSpec, kind: ExecutorKind) -> str:
    """Return why runs of that target cannot happen on an engine; empty if they can."""
    if kind is ExecutorKind.LOCAL:
        return ""
    if not isinstance(spec, AgentSpec | CommandSpec):
        return f"a run of this {spec.kind} happens inside of the node"
    resources = spec.resources or NO_RESOURCES
    if resources.image is not None and kind is ExecutorKind.RAY:
        return "Ray starts jobs in the environment of its machines, and in no image"
    if isinstance(spec, CommandSpec):
        return ""
    if spec.chat:
        return "the threads of a chat are sessions, which lie on the machine that began them"
    return find_run_obstacle(kind, workspace=spec.workspace, isolation=spec.isolation, resumes_session=False)


def find_run_obstacle(
    kind: ExecutorKind, *, workspace: WorkspaceSpec | None, isolation: IsolationSpec | None, resumes_session: bool
) -> str:
    """Return why a run with these settings cannot happen on an engine; empty if it can."""
    if kind is ExecutorKind.LOCAL:
        return ""
    if workspace is not None and workspace.type is WorkspaceType.WORKTREE:
        return "a worktree would stay on a machine of the engine, where nothing removes it"
    if resumes_session:
        return "a session lies on the machine that began it, and the next run may happen on another"
    if kind is ExecutorKind.KUBERNETES and isolation is not None:
        return "the pod confines the agent already"
    return ""
