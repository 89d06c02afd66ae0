"""A schedule: a target, a trigger, a prompt and policies, as configured, with every default resolved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from herdbeat.domain.ids import DEFAULT_SCHEDULE_NAME, display_name
from herdbeat.domain.isolation import IsolationSpec
from herdbeat.domain.policies import Policies
from herdbeat.domain.target import OnDenied, Origin, ToolPolicy
from herdbeat.domain.trigger import Trigger
from herdbeat.domain.workspace import WorkspaceSpec

__all__ = ["DEFAULT_SCHEDULE_NAME", "RunSpec", "Schedule", "display_name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a run needs beside its target. It is read when the run starts, not when the schedule is decided.

    `workspace`, `isolation`, `tool_policy`, `on_denied` and `account` replace those of the agent. `session_timeout` is
    how long a session can be resumed after its last run. `variables` are those that prompt and isolation refer to; a
    work source has its own.
    """

    prompt: str | None = None
    work_source: Mapping[str, object] | None = None
    resume_session: bool = False
    output_to_file: bool = False
    workspace: WorkspaceSpec | None = None
    isolation: IsolationSpec | None = None
    tool_policy: ToolPolicy | None = None
    on_denied: OnDenied | None = None
    account: str | None = None
    session_timeout: timedelta = timedelta(hours=24)
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    target: str
    name: str
    trigger: Trigger
    policies: Policies
    prompt: str | None = None
    enabled: bool = True
    work_source: Mapping[str, object] | None = None
    resume_session: bool = False
    output_to_file: bool = False
    workspace: WorkspaceSpec | None = None
    isolation: IsolationSpec | None = None
    tool_policy: ToolPolicy | None = None
    on_denied: OnDenied | None = None
    account: str | None = None
    session_timeout: timedelta = timedelta(hours=24)
    variables: tuple[str, ...] = ()
    secret_env: str | None = None
    secret: str | None = field(default=None, repr=False)
    origin: Origin | None = None

    @property
    def id(self) -> str:
        return f"{self.target}/{self.name}"

    @property
    def label(self) -> str:
        """The name that people see: `target/name`, or the target alone for its default schedule."""
        return display_name(self.target, self.name)
