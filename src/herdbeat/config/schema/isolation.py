"""The keys `workspace` and `isolation` of agents and schedules."""

from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import DURATION, PATH, TEXT
from herdbeat.config.schema.table import AnyOf, Field, ListOf, Table
from herdbeat.config.schema.types import Boolean, Choice, EnumValue
from herdbeat.domain.isolation import Access, IsolationType
from herdbeat.domain.workspace import KeepPolicy, WorkspaceType

WORKSPACE_TYPE = Field("type", EnumValue(WorkspaceType), "Kind of workspace.", required=True)
WORKSPACE_TABLE = Table(
    "A workspace",
    WORKSPACE_TYPE,
    Field("base", TEXT, "Commit, branch or tag that the worktree starts from.", "HEAD"),
    Field("keep", EnumValue(KeepPolicy), "Which worktrees stay after their run.", "changed"),
    Field("prune_after", DURATION, "Age at which a worktree that was kept is removed.", "7d"),
)
WORKSPACE = Field(
    "workspace",
    AnyOf(scalar=EnumValue(WorkspaceType), mapping=WORKSPACE_TABLE),
    "Where runs work: in the working directory, or in a git worktree for each run.",
    unset="shared",
)


def is_own_workspace(node: ConfigNode) -> bool:
    """True for our `workspace`; any other text is herdctl's old name of `working_directory`."""
    if isinstance(node.value, dict):
        return WORKSPACE_TYPE.name in node.value
    return isinstance(node.value, str) and node.value in set(WorkspaceType)


ISOLATION_TYPE = Field("type", EnumValue(IsolationType), "What confines the agent.", required=True)
ISOLATION_TABLE = Table(
    "An isolation",
    ISOLATION_TYPE,
    Field("network", Boolean(), "Whether the agent can reach the network.", unset="true; docker: as in docker.network"),
    Field("workspace", EnumValue(Access), "Access to the working directory.", "rw"),
    Field("credentials", EnumValue(Access), "Access to the login of the agent's CLI.", "ro"),
    Field("read_only", ListOf(PATH), "Further files and folders that the agent can read."),
    Field("read_write", ListOf(PATH), "Further files and folders that the agent can change."),
    Field("engine", Choice(("docker", "podman")), "docker: the container engine.", unset="docker, else podman"),
    Field("image", TEXT, "docker: the container image.", unset="as in docker.image"),
)
ISOLATION = Field(
    "isolation",
    AnyOf(scalar=EnumValue(IsolationType), mapping=ISOLATION_TABLE),
    "What confines the agent. Without it, an agent can do what this user can.",
    unset="none",
)
SCHEDULE_WORKSPACE = Field("workspace", WORKSPACE.field_type, WORKSPACE.meaning, unset="the agent's")
SCHEDULE_ISOLATION = Field("isolation", ISOLATION.field_type, ISOLATION.meaning, unset="the agent's")
