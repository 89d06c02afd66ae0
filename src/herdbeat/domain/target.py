"""What is run: an agent, an endpoint, a command, a callable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar

from herdbeat.domain.policies import Budget
from herdbeat.errors import SourceLocation

# Where a target or a schedule comes from: its place in a file, or the way in by which somebody made it.


class CreatedVia(StrEnum):
    """Ways in beside the files. What came by one of them stays when the files are applied."""

    CLI = "cli"
    API = "api"
    MCP = "mcp"
    APPLY = "apply"  # one file by itself, which is not part of the fleet's files: "apply deploy.yml:1:1"


def is_unmanaged(origin: str) -> bool:
    """Whether somebody made it, beside the files. A place always ends in its line and column, so it is no bare word."""
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
        """The key of the fleet file under which its targets stand."""
        return f"{self}s"


class ToolMode(StrEnum):
    """How a list of tools is meant."""

    ALLOW_ALL = "allow_all"
    DENY_ALL = "deny_all"
    ALLOW_LIST = "allow_list"
    DENY_LIST = "deny_list"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Which tools an agent may use. That of a schedule outranks that of its agent, for its runs only."""

    mode: ToolMode = ToolMode.ALLOW_ALL
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A program by its argv, never a shell string.

    A `working_directory` that is relative counts from the fleet's folder, on each node from its own.
    """

    kind: ClassVar[TargetKind] = TargetKind.COMMAND
    command: tuple[str, ...]
    working_directory: str
    env: tuple[str, ...] = ()
    env_values: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSpec:
    """One HTTP request. 2xx, and `ok` if given, mean success."""

    kind: ClassVar[TargetKind] = TargetKind.ENDPOINT
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: object = None
    ok: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableSpec:
    """A Python function, named `module:function`."""

    kind: ClassVar[TargetKind] = TargetKind.CALLABLE
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An AI agent: a runtime, what it may do, and where it works: relative to the fleet's folder, or absolute."""

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
    session_timeout: timedelta = timedelta(hours=24)
    session_max_turns: int | None = None
    repo: str | None = None
    metadata_file: str = "metadata.json"
    docker: Mapping[str, object] | None = None
    chat: Mapping[str, object] = field(default_factory=dict)


TargetSpec = AgentSpec | EndpointSpec | CommandSpec | CallableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A name, what it is, how many runs of it may go on at once, and what all its schedules together may use a day."""

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
"""The spec of each kind, for who reads a stored one."""
