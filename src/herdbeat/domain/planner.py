"""The planner: its settings, what a model proposes in a session, and the record of that session."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

PLANNER_ORIGIN = "planner"
"""The author of its hints and pauses. It ranks below people, agents and rules."""

MIN_ANALYSIS_DISTANCE = timedelta(minutes=5)
MAX_ANALYSIS_DISTANCE = timedelta(hours=24)
DEFAULT_ANALYSIS_DISTANCE = timedelta(hours=1)


class PlannerProvider(StrEnum):
    """Whom the planner asks."""

    OPENAI = "openai"  # the Chat Completions API, which many servers speak
    ANTHROPIC = "anthropic"
    AGENT = "agent"  # the CLI of an agent that is already there


DEFAULT_PLANNER_URLS = {
    PlannerProvider.OPENAI: "https://api.openai.com/v1",
    PlannerProvider.ANTHROPIC: "https://api.anthropic.com",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSettings:
    """The `planner` block of a fleet. `model` is that of an API; with `runtime`, the CLI of that agent is asked.

    `groups` is empty for all groups. The budgets are for a day in the fleet's zone.
    """

    provider: PlannerProvider
    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    runtime: str = ""
    groups: tuple[str, ...] = ()
    max_turns: int = 12
    timeout: timedelta = timedelta(minutes=2)
    sessions_per_day: int = 100
    tokens_per_day: int | None = None
    usd_per_day: float | None = None

    @property
    def needs_key(self) -> bool:
        """Whether the API is a vendor's own. Other servers, such as one on this machine, may need no key."""
        return self.base_url in DEFAULT_PLANNER_URLS.values()


class ActionKind(StrEnum):
    """What a session can ask for. Each is the name of a tool."""

    PROPOSE_INTERVAL = "propose_interval"
    PROPOSE_NEXT_TIME = "propose_next_time"
    PAUSE_UNTIL = "pause_until"
    CLEAR_HINTS = "clear_hints"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """One proposal. `outcome` is empty while it is staged, then `done`, `unchanged` or why it was refused."""

    kind: ActionKind
    schedule: str
    reason: str
    every_s: float | None = None
    lasts_s: float | None = None
    at: datetime | None = None
    outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A tool that the model has called, and a short form of the answer."""

    tool: str
    arguments: Mapping[str, object]
    answer: str
    ok: bool = True


class SessionStatus(StrEnum):
    """How a session ended."""

    COMPLETED = "completed"
    INCOMPLETE = "incomplete"  # a limit ended it; nothing that it staged is done
    FAILED = "failed"  # the model could not be asked
    SKIPPED = "skipped"  # a budget of the day is used up


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSession:
    """The record of one analysis of a group. The store assigns `id`."""

    group: str
    model: str
    status: SessionStatus
    started_at: datetime
    finished_at: datetime
    next_at: datetime
    reasoning: str = ""
    actions: tuple[PlannedAction, ...] = ()
    calls: tuple[ToolUse, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    id: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerUsage:
    """What sessions have used since a moment."""

    sessions: int = 0
    tokens: int = 0
    usd: float = 0.0
