"""The events that an agent CLI reports during a run, as frozen values. All parsers produce these and nothing else.

Every text was written by the CLI or by a model: it is untrusted, valid Unicode without NUL, and bounded in length.
"""

from dataclasses import dataclass
from enum import StrEnum

from herdbeat.domain.agent_run import FinishReason, LimitReached, TokenUsage


class EndedBy(StrEnum):
    """Who ended the process of the CLI."""

    ITSELF = "itself"
    TIMEOUT = "timeout"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """How the process ended. `code` is negative for a signal, None if unknown; `stderr` is the end of that stream."""

    code: int | None = 0
    ended_by: EndedBy = EndedBy.ITSELF
    stderr: str = ""

    @property
    def is_clean(self) -> bool:
        return self.code == 0 and self.ended_by is EndedBy.ITSELF


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted:
    """The CLI has opened a session. Fields that it does not tell are empty.

    `is_subscription` is True if the login is a subscription, so that dollar figures are notional.
    """

    session_id: str = ""
    model: str = ""
    is_subscription: bool = False
    failed_mcp_servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentText:
    """Text of the agent. A `delta` continues the previous text."""

    text: str
    is_delta: bool = False
    is_subagent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The agent calls a tool. `detail` is its input as one short line."""

    call_id: str
    name: str
    detail: str = ""
    is_subagent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """A tool call has ended. `detail` is the beginning of its output."""

    call_id: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSeen:
    """What the run has used so far, for runs that end without a final figure. Each replaces the one before."""

    usage: TokenUsage
    usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDenied:
    """A tool call was denied because it needs approval; `by_rule`: because a rule of its owner denies it."""

    name: str
    call_id: str = ""
    detail: str = ""
    by_rule: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNotice:
    """A line for the log that means nothing else: a warning, a retry, a line that is not JSON."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFinished:
    """The end of the run: exactly one, and the last event. `message` says what went wrong, in the CLI's words.

    `usage` and `usd` are totals as the CLI counts them; `own_usage` is the part that this process alone has used. None
    means that the CLI did not tell. `is_partial`: there was no final figure, and `usage` is what the output shows of
    this process. `answer` is the final text, bounded; `last_line` is its true last line.
    """

    ok: bool
    reason: FinishReason
    answer: str = ""
    last_line: str = ""
    message: str = ""
    session_id: str = ""
    usage: TokenUsage | None = None
    own_usage: TokenUsage | None = None
    is_partial: bool = False
    usd: float | None = None
    turns: int | None = None
    model: str = ""


AgentEvent = (
    AgentStarted
    | AgentText
    | ToolCall
    | ToolResult
    | UsageSeen
    | LimitReached
    | ToolDenied
    | AgentNotice
    | AgentFinished
)
