"""Reports of agents, for tests that need no agent."""

from dataclasses import replace
from typing import Any

from herdbeat.domain.agent_run import AgentReport, CountedUsage, FinishReason, SessionTotals

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
