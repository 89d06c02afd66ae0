"""Read models of what only agents have: answers, costs, sessions and marks for people."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.agent_run import AgentStep, SpendSource, TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunRecord:
    """What is kept of an agent's run beside the run itself. `answer` and `prompt` may have been cut.

    `branch` has the changes that the run left in its workspace; it is empty if there are none.
    """

    error_code: str
    account: str
    model: str
    answer: str
    quiet: bool
    empty_answer: bool
    turns: int | None
    steps: tuple[AgentStep, ...]
    steps_left_out: int
    prompt: str
    branch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A conversation that a later run of its schedule can continue, on the host that has it."""

    runtime: str
    session_id: str
    schedule: str
    host: str
    created_at: datetime
    last_used_at: datetime
    runs: int
    usd: float | None
    usage: TokenUsage | None
    in_use_by: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRecord:
    """A run that a person should look at. A later run that needed nobody acknowledges as `run:<id>`."""

    run_id: int
    schedule: str
    what: tuple[str, ...]
    at: datetime
    acked_by: str | None = None
    acked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRecord:
    """What the runs of one schedule were charged on one day, as far as the figures have one source."""

    day: str
    schedule: str
    target: str
    source: SpendSource
    is_notional: bool
    runs: int
    usd: float | None
    usage: TokenUsage | None
