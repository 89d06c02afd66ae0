"""Targets: what a schedule runs (an agent, an endpoint, a command or a callable), and where it was defined."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar

from herdbeat.domain.executor import ExecutorKind, Resources
from herdbeat.domain.isolation import IsolationSpec
from herdbeat.domain.policies import Budget
from herdbeat.domain.workspace import WorkspaceSpec
from herdbeat.errors import SourceLocation


class CreatedVia(StrEnum):
    """How a target or schedule was created other than by the fleet's files. Applying the files does not remove it."""

    CLI = "cli"
    API = "api"
    MCP = "mcp"
    APPLY = "apply"  # from one file that is not part of the fleet: "apply deploy.yml:1:1"


def is_unmanaged(origin: str) -> bool:
    """True if the stored origin is not a place in the fleet's files. Such a place ends in line and column."""
    return origin.partition(" ")[0] in _CREATED_VIA_VALUES


Origin = SourceLocation | CreatedVia
_CREATED_VIA_VALUES = frozenset(way.value for way in CreatedVia)


class TargetKind(StrEnum):
    AGENT = "agent"
    ENDPOINT = "endpoint"
    COMMAND = "command"
    CALLABLE = "callable"

    @property
    def section(self) -> str:
        """The key of the fleet file that contains targets of this kind."""
        return f"{self}s"


COMMAND_RUNTIME = "command"
"""The runtime of an agent that is any program: its `command` says which."""


class ToolMode(StrEnum):
    """How the list of tools in a policy is applied."""

    ALLOW_ALL = "allow_all"
    DENY_ALL = "deny_all"
    ALLOW_LIST = "allow_list"
    DENY_LIST = "deny_list"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Which tools an agent may use. The policy of a schedule overrides its agent's, for its own runs only."""

    mode: ToolMode = ToolMode.ALLOW_ALL
    tools: tuple[str, ...] = ()


class OnDenied(StrEnum):
    """What to do with a run whose agent was denied a tool because no person could approve it."""

    MARK = "mark"  # it succeeds, and is marked: a person is needed
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A program and its arguments, never a shell string.

    A relative `working_directory` is resolved against the fleet's folder of the node that runs it. Without an
    `executor`, the node decides where it runs. `variables`, here and in other specs, are those that its texts refer to:
    see `references`.
    """

    kind: ClassVar[TargetKind] = TargetKind.COMMAND
    command: tuple[str, ...]
    working_directory: str
    env: tuple[str, ...] = ()
    env_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    executor: ExecutorKind | None = None
    resources: Resources | None = None
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSpec:
    """One HTTP request. It succeeds with a 2xx status, and with `ok` if that is given."""

    kind: ClassVar[TargetKind] = TargetKind.ENDPOINT
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: object = None
    ok: str | None = None
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableSpec:
    """A Python function, named `module:function`."""

    kind: ClassVar[TargetKind] = TargetKind.CALLABLE
    call: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An AI agent: its runtime and permissions, and a working directory that may be relative to the fleet's folder.

    `program` is the file of its CLI, if that is not found by name. `preset` is the definition of a runtime that the
    fleet file has. `account` names the login whose usage limit it shares with other agents.
    `allow_create` lets it add schedules to itself through our tools.
    `isolation` includes what herdctl's `docker` block says. `docker` is that block as it is written; a spec that was
    stored by an older version has only this.
    """

    kind: ClassVar[TargetKind] = TargetKind.AGENT
    runtime: str
    working_directory: str
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    env_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    default_prompt: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    max_turns: int | None = None
    permission_mode: str = "acceptEdits"
    tools: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] = ()
    denied_tools: tuple[str, ...] = ()
    mcp_servers: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    plugins: tuple[object, ...] = ()
    setting_sources: tuple[str, ...] = ("project",)
    tool_policy: ToolPolicy | None = None
    program: str | None = None
    preset: Mapping[str, object] = field(default_factory=dict)
    account: str | None = None
    on_denied: OnDenied = OnDenied.MARK
    extra_dirs: tuple[str, ...] = ()
    append_system_prompt: str | None = None
    session_timeout: timedelta = timedelta(hours=24)
    session_max_turns: int | None = None
    repo: str | None = None
    metadata_file: str = "metadata.json"
    docker: Mapping[str, object] | None = None
    workspace: WorkspaceSpec | None = None
    isolation: IsolationSpec | None = None
    chat: Mapping[str, object] = field(default_factory=dict)
    executor: ExecutorKind | None = None
    resources: Resources | None = None
    allow_create: bool = False
    variables: tuple[str, ...] = ()

    @property
    def cli(self) -> str:
        """The built-in runtime whose CLI it is: the one that its definition is `like`, else its own name."""
        name = str(self.preset.get("like", self.runtime))
        return "claude" if name in ("sdk", "cli") else name


TargetSpec = AgentSpec | EndpointSpec | CommandSpec | CallableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A named target, with the limits that all of its schedules share: concurrent runs and daily budget."""

    name: str
    spec: TargetSpec
    description: str = ""
    max_concurrent: int = 1
    budget: Budget | None = None
    hooks: Mapping[str, object] = field(default_factory=dict)
    origin: Origin | None = None

    @property
    def kind(self) -> TargetKind:
        return self.spec.kind


SPEC_TYPES: Mapping[str, type[TargetSpec]] = {
    spec.kind: spec for spec in (AgentSpec, EndpointSpec, CommandSpec, CallableSpec)
}
"""The spec class of each kind, to decode stored specs."""
