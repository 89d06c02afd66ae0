"""Placement: which executor runs a target, and which targets have to stay on the node. Pure."""

from collections.abc import Collection

from herdbeat.domain.executor import ExecutorKind, ExecutorSettings, Resources
from herdbeat.domain.isolation import IsolationSpec
from herdbeat.domain.target import AgentSpec, CommandSpec, TargetSpec
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType

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
        return "a worktree would stay on a machine that nobody looks after"
    if resumes_session:
        return "a session lies on the machine that began it, and the next run may happen on another"
    if kind is ExecutorKind.KUBERNETES and isolation is not None:
        return "the pod confines the agent already"
    return ""
