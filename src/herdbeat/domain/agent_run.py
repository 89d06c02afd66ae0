"""What an agent's run reports beyond success and failure: its answer, its tool calls, its usage, its limit.

Runners report these values, the scheduler charges them and the store keeps them. Every text was written by a CLI or by
a model: it is untrusted, valid Unicode without NUL, and bounded in length.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.agent_tools import RunReport


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens in one meaning for all CLIs: the input includes both cache counts, the output includes reasoning.

    The CLIs disagree: Claude and OpenCode count cached input separately, Codex and Gemini include it.
    """

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def minus(self, other: "TokenUsage") -> "TokenUsage":
        """Return the difference, which is negative where `other` has more."""
        return self.plus(
            TokenUsage(
                input_tokens=-other.input_tokens,
                cache_read_tokens=-other.cache_read_tokens,
                cache_write_tokens=-other.cache_write_tokens,
                output_tokens=-other.output_tokens,
            )
        )


def sum_usage(parts: Iterable[TokenUsage]) -> TokenUsage:
    total = TokenUsage()
    for part in parts:
        total = total.plus(part)
    return total


class FinishReason(StrEnum):
    """Why an agent ended. Every member but COMPLETED is a failure, and its value is the error code of the run."""

    COMPLETED = "completed"
    RATE_LIMITED = "rate_limited"
    AUTH_FAILED = "auth_failed"
    MAX_TURNS = "max_turns"
    BUDGET_EXHAUSTED = "budget_exhausted"
    UNKNOWN_SESSION = "unknown_session"
    API_ERROR = "api_error"
    AGENT_ERROR = "agent_error"  # the CLI says that it failed, for a reason that has no member here
    REFUSED_TO_START = "refused_to_start"  # a wrong flag, an untrusted folder, root: nothing was asked of a model
    INTERRUPTED = "interrupted"
    TIMED_OUT = "timed_out"
    DENIED = "denied"  # only with `on_denied: fail`
    NO_RESULT = "no_result"  # the output ended before the CLI said how it went
    EXIT_CODE = "exit_code"  # the CLI reported success and then exited with an error


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """A usage limit of the account ended the run. It precedes the `AgentFinished` with reason RATE_LIMITED.

    `reset_at` is None if the CLI named no time. `model` is set if the limit is that of one model only.
    """

    reset_at: datetime | None = None
    model: str = ""
    text: str = ""

    @property
    def stated(self) -> bool:
        """True if the CLI named the reset, rather than the caller having to guess one."""
        return self.reset_at is not None


class SpendSource(StrEnum):
    """Where a dollar figure comes from, the most reliable first."""

    REPORTED = "reported"  # by the CLI
    TABLE = "table"  # tokens times the prices of the user
    ESTIMATED = "estimated"  # tokens times the prices of a package
    UNKNOWN = "unknown"  # never counted as 0: such a budget is kept in tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTotals:
    """The last totals that a CLI reported for one session. None is a figure that it has never reported."""

    usage: TokenUsage | None = None
    usd: float | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing in it, or only zeros: CLIs report zeros after a crash or an interruption."""
        return not self.usd and (self.usage is None or self.usage == TokenUsage())


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedUsage:
    """What the output of one run says it used.

    With `is_cumulative`, `totals` may include earlier runs of the session. `own_usage` is what this process alone has
    used, if the CLI reports it. With `is_partial`, there was no final figure: `totals` are those of this process so
    far.
    """

    totals: SessionTotals = SessionTotals()
    own_usage: TokenUsage | None = None
    is_cumulative: bool = False
    is_partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """Dollars per million tokens. Cached input without a price of its own costs as much as other input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def find_price(prices: Mapping[str, ModelPrice], model: str) -> ModelPrice | None:
    """Return the price of a model: by its name, else by the longest name that it begins with."""
    if model in prices:
        return prices[model]
    prefixes = [name for name in prices if name and model.startswith(name)]
    return prices[max(prefixes, key=len)] if prefixes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpend:
    """The cost of one run. A notional figure is a price list's: the login is a subscription, and nothing is billed."""

    usd: float | None = None
    source: SpendSource = SpendSource.UNKNOWN
    usage: TokenUsage | None = None
    is_notional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """One tool call, as a bar of the run's waterfall. A step without an end was going on when the run ended."""

    name: str
    detail: str
    started_at: datetime
    ended_at: datetime | None = None
    ok: bool | None = None
    is_subagent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """All that is kept of an agent's run. `error_code` is empty for a success.

    `needs_you` has one line per thing that a person should decide. `tool_called` is True if the agent called any tool,
    so that the run must not be repeated after a usage limit. `counted` is charged by `charge_run`, with the totals that
    are stored for the session. `account` is the login whose limit it shares with other targets. `prompt` is what the
    agent was asked, and `runtime` the preset of its CLI. `resumed` is True if the run continued an earlier session.
    `told` is what the agent has reported through our own tools.
    """

    ok: bool
    reason: FinishReason
    message: str
    answer: str
    quiet: bool
    empty_answer: bool
    needs_you: tuple[str, ...]
    session_id: str
    model: str
    counted: CountedUsage
    is_subscription: bool
    turns: int | None
    steps: tuple[AgentStep, ...]
    steps_left_out: int
    tool_called: bool
    limit: LimitReached | None
    account: str = ""
    runtime: str = ""
    prompt: str = ""
    resumed: bool = False
    told: RunReport | None = None

    @property
    def usage(self) -> dict[str, float]:
        """What this run has used, as far as its CLI reports it.

        Totals of a resumed session are not this run's alone.
        """
        is_total = self.counted.is_cumulative and self.resumed and not self.counted.is_partial
        tokens = self.counted.own_usage if is_total else self.counted.totals.usage
        used: dict[str, float] = {} if tokens is None else {"tokens": tokens.total, **asdict(tokens)}
        usd = None if is_total else self.counted.totals.usd
        return used if usd is None else {**used, "usd": usd}

    @property
    def limit_reached(self) -> bool:
        """True if a usage limit of the account ended the run."""
        return not self.ok and self.reason is FinishReason.RATE_LIMITED

    @property
    def error_code(self) -> str:
        return "" if self.ok else self.reason.value
