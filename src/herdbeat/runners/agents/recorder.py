"""Records a run: its events become log lines as they arrive, and at the end one report."""

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, assert_never

from herdbeat.domain.agent_run import AgentReport, AgentStep, CountedUsage, FinishReason, LimitReached, SessionTotals
from herdbeat.runners.agents.events import (
    AgentEvent,
    AgentFinished,
    AgentNotice,
    AgentStarted,
    AgentText,
    ToolCall,
    ToolDenied,
    ToolResult,
    UsageSeen,
)
from herdbeat.runners.agents.invocation import OWN_SERVER
from herdbeat.runners.run_log import LogStream

MAX_STEPS = 500
"""More tool calls are counted, not kept: the log has them all."""
MAX_NEEDS = 20
QUIET_LINES = frozenset({"NOTHING TO REPORT", "[SILENT]"})
"""An answer whose last line is one of these is not worth anybody's attention."""


class LogPiece(NamedTuple):
    """A piece of the run's log. It need not be a whole line."""

    stream: LogStream
    text: str


class AgentRecorder:
    """Takes the events of one run in order. `record` returns what to add to the log, `report` the outcome.

    `model` is the one that was asked for, for CLIs that do not name it. `fails_when_denied` is `on_denied: fail`.
    """

    def __init__(self, *, model: str = "", usage_is_cumulative: bool = False, fails_when_denied: bool = False) -> None:
        self._model = model
        self._usage_is_cumulative = usage_is_cumulative
        self._fails_when_denied = fails_when_denied
        self._started = AgentStarted()
        self._finished: AgentFinished | None = None
        self._seen: UsageSeen | None = None
        self._limit: LimitReached | None = None
        self._steps: list[AgentStep] = []
        self._open_steps: dict[str, int] = {}
        self._tool_calls = 0
        self._denied: dict[str, None] = {}
        self._is_line_open = False

    def record(self, event: AgentEvent, now: datetime) -> list[LogPiece]:
        """Take one event; return its part of the log."""
        match event:
            case AgentText():
                return self._log_text(event)
            case UsageSeen():
                self._seen = event
                return []
            case ToolCall() | ToolResult() | ToolDenied():
                return self._close_line() + self._record_tool(event, now)
            case AgentNotice():
                return [*self._close_line(), LogPiece(LogStream.OUT, f"{event.text}\n")]
            case AgentStarted() | LimitReached() | AgentFinished():
                return self._close_line() + self._record_state(event)
            case _:
                assert_never(event)

    def report(self, *, quiet: bool = False, needs_you: str = "") -> AgentReport:
        """Return the outcome. `quiet` and `needs_you` are what the agent said through our own tools.

        Without an end, which no parser leaves out, the run has no result.
        """
        finished = self._finished or AgentFinished(
            ok=False, reason=FinishReason.NO_RESULT, message="Its output was not read to the end."
        )
        needs = (*((needs_you,) if needs_you else ()), *self._denied)
        if finished.ok and self._denied and self._fails_when_denied:
            finished = replace(
                finished, ok=False, reason=FinishReason.DENIED, message=f"It was denied {', '.join(self._denied)}."
            )
        says_quiet = quiet or finished.last_line in QUIET_LINES
        return AgentReport(
            ok=finished.ok,
            reason=finished.reason,
            message=finished.message,
            answer=finished.answer,
            quiet=says_quiet and finished.ok and not needs,
            empty_answer=finished.ok and not finished.answer,
            needs_you=needs,
            session_id=finished.session_id or self._started.session_id,
            model=finished.model or self._started.model or self._model,
            counted=self._count(finished),
            is_subscription=self._started.is_subscription,
            turns=finished.turns,
            steps=tuple(self._steps),
            steps_left_out=self._tool_calls - len(self._steps),
            tool_called=self._tool_calls > 0,
            limit=self._limit if finished.reason is FinishReason.RATE_LIMITED else None,
        )

    def _record_tool(self, event: ToolCall | ToolResult | ToolDenied, now: datetime) -> list[LogPiece]:
        match event:
            case ToolCall():
                self._open_step(event, now)
                return [LogPiece(LogStream.OUT, f"→ {_name_and_detail(event.name, event.detail)}\n")]
            case ToolResult():
                self._close_step(event, now)
                failed = LogPiece(LogStream.OUT, f"  failed: {event.detail or 'no reason given'}\n")
                return [] if event.ok else [failed]
            case ToolDenied():
                return self._note_denial(event)

    def _record_state(self, event: AgentStarted | LimitReached | AgentFinished) -> list[LogPiece]:
        match event:
            case AgentStarted():
                self._started = event
                return _log_start(event)
            case LimitReached():
                self._limit = event
                return [LogPiece(LogStream.NOTE, f"{_describe_limit(event)}\n")]
            case AgentFinished():
                self._finished = event
                return _log_end(event)

    def _count(self, finished: AgentFinished) -> CountedUsage:
        seen = self._seen
        usage = finished.usage or (seen.usage if seen else None)
        usd = finished.usd if finished.usd is not None or seen is None else seen.usd
        return CountedUsage(
            totals=SessionTotals(usage=usage, usd=usd),
            own_usage=finished.own_usage,
            is_cumulative=self._usage_is_cumulative,
            is_partial=finished.is_partial or finished.usage is None,
        )

    def _log_text(self, event: AgentText) -> list[LogPiece]:
        """Write text as it comes. Pieces of one text are one line; a new text begins a new one."""
        entries = [] if event.is_delta else self._close_line()
        if event.text:
            self._is_line_open = not event.text.endswith("\n")
            entries.append(LogPiece(LogStream.OUT, event.text))
        return entries

    def _close_line(self) -> list[LogPiece]:
        if not self._is_line_open:
            return []
        self._is_line_open = False
        return [LogPiece(LogStream.OUT, "\n")]

    def _open_step(self, call: ToolCall, now: datetime) -> None:
        self._tool_calls += 1
        if len(self._steps) >= MAX_STEPS:
            return
        self._open_steps[call.call_id] = len(self._steps)
        self._steps.append(AgentStep(name=call.name, detail=call.detail, started_at=now, is_subagent=call.is_subagent))

    def _close_step(self, result: ToolResult, now: datetime) -> None:
        index = self._open_steps.pop(result.call_id, None)
        if index is not None:
            self._steps[index] = replace(self._steps[index], ended_at=now, ok=result.ok)

    def _note_denial(self, event: ToolDenied) -> list[LogPiece]:
        what = _name_and_detail(event.name, event.detail)
        if event.by_rule:
            return [LogPiece(LogStream.NOTE, f"denied by a rule: {what}\n")]
        is_own = event.name.startswith(f"mcp__{OWN_SERVER}__")
        if not is_own and len(self._denied) < MAX_NEEDS:
            self._denied[what] = None
        return [LogPiece(LogStream.NOTE, f"denied, because it needs approval: {what}\n")]


def _name_and_detail(name: str, detail: str) -> str:
    return f"{name}: {detail}" if detail else name


def _log_start(event: AgentStarted) -> list[LogPiece]:
    told = [f"session {event.session_id}" if event.session_id else "", event.model]
    lines = [" · ".join(each for each in told if each)]
    lines += [f"the MCP server {name} did not start" for name in event.failed_mcp_servers]
    return [LogPiece(LogStream.NOTE, f"{line}\n") for line in lines if line]


def _log_end(event: AgentFinished) -> list[LogPiece]:
    return [] if event.ok else [LogPiece(LogStream.NOTE, f"{event.reason}: {event.message}\n")]


def _describe_limit(event: LimitReached) -> str:
    subject = f"usage limit of {event.model}" if event.model else "usage limit"
    until = f"until {event.reset_at:%Y-%m-%dT%H:%M:%SZ}" if event.reset_at else "without a stated end"
    return f"{subject} reached, {until}"
