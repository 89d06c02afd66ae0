"""Reports of agents, for tests that need no agent."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from herdbeat.domain.agent_run import (
    AgentReport,
    CountedUsage,
    FinishReason,
    LimitReached,
    SessionTotals,
    TokenUsage,
)
from herdbeat.domain.run import Outcome, RunStatus

REPORT = AgentReport(
    ok=True,
    reason=FinishReason.COMPLETED,
    message="",
    answer="Done.",
    quiet=False,
    empty_answer=False,
    needs_you=(),
    session_id="s-1",
    model="fake-1",
    counted=CountedUsage(totals=SessionTotals(usd=0.4)),
    is_subscription=False,
    turns=1,
    steps=(),
    steps_left_out=0,
    tool_called=False,
    limit=None,
)


def make_report(**values: Any) -> AgentReport:
    return replace(REPORT, **values)


def count_usage(
    input_tokens: int = 0, output_tokens: int = 0, usd: float | None = None, *, cumulative: bool = False
) -> CountedUsage:
    told = TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)
    return CountedUsage(totals=SessionTotals(usage=told if told.total else None, usd=usd), is_cumulative=cumulative)


def succeed(**values: Any) -> Outcome:
    return Outcome(status=RunStatus.SUCCEEDED, agent=make_report(**values))


def reach_limit(reset_at: datetime | None = None, *, model: str = "", **values: Any) -> Outcome:
    """Return the outcome of a run that was refused because of a usage limit, on the account "team" unless given."""
    text = "You've hit your limit"
    limit = LimitReached(reset_at=reset_at, model=model, text=text)
    refused = {
        "ok": False,
        "reason": FinishReason.RATE_LIMITED,
        "answer": "",
        "account": "team",
        "limit": limit,
        "counted": CountedUsage(),
    }
    return Outcome(status=RunStatus.FAILED, error=text, agent=make_report(**{**refused, **values}))
