"""The output of Gemini CLI (`--output-format stream-json`) and of its successor `agy`, which nests the same in `event`.

Both end with a `result` that has a status. Gemini's exit code says why it did not even begin.
"""

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo

from herdbeat.domain.agent_run import FinishReason, TokenUsage
from herdbeat.runners.agents.events import (
    AgentEvent,
    AgentFinished,
    AgentNotice,
    AgentStarted,
    AgentText,
    EndedBy,
    ProcessEnd,
    ToolCall,
    ToolDenied,
    ToolResult,
)
from herdbeat.runners.agents.parsers.base import (
    Failure,
    JsonLineParser,
    emit_end,
    explain_error,
    explain_exit,
    explain_missing_result,
    find_cause_line,
)
from herdbeat.runners.agents.parsers.lines import (
    MAX_LINE_BYTES,
    AnswerBuffer,
    JsonObject,
    get_count,
    get_object,
    get_text,
    get_word,
    summarize,
)

_EXIT_REASONS = {
    41: FinishReason.AUTH_FAILED,
    42: FinishReason.REFUSED_TO_START,  # no or wrong input
    44: FinishReason.REFUSED_TO_START,  # sandbox
    52: FinishReason.REFUSED_TO_START,  # configuration
    53: FinishReason.MAX_TURNS,
    54: FinishReason.AGENT_ERROR,  # a tool failed beyond repair
    55: FinishReason.REFUSED_TO_START,  # the folder is not trusted
    130: FinishReason.INTERRUPTED,
}
_DENIAL_PATTERN = re.compile(
    r"denied by policy|policy_violation|execution_denied|requires (?:user )?(?:confirmation|approval)"
    r"|not supported in non-interactive|permission (?:was )?denied by",
    re.IGNORECASE,
)
_NOT_OFFERED = "tool_not_registered"
_TOOLS_WITH_CONSENT = frozenset({"run_shell_command", "write_file", "replace", "edit", "web_fetch"})
"""Tools of its own that a mode without consent does not even offer.

A model that calls one gets the answer that there is none.
"""
_SUCCESS_STATUS_PATTERN = re.compile(
    r"(?:(?!(?:not|un|in|non|partially|partial|never)_)[a-z]+_)*(?:success|succeeded|completed?|done|ok|finished)",
    re.IGNORECASE,
)
"""Of `agy` only a few statuses are known. A prefix such as "task_" is no difference; one that negates is."""
_OPEN_STATES = frozenset({"", "PENDING", "RUNNING", "IN_PROGRESS", "STARTED", "GENERATING", "WAITING"})
_DENIED_STATES = frozenset({"DENIED", "REJECTED"})


class GeminiParser(JsonLineParser):
    def __init__(self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(zone, max_line_bytes)
        self._session_id = ""
        self._model = ""
        self._answer = AnswerBuffer()
        self._is_new_text = True
        self._status = ""
        self._last_error = ""
        self._usage: TokenUsage | None = None
        self._turns = 0
        self._open_calls: dict[str, ToolCall] = {}

    @property
    def has_result(self) -> bool:
        return bool(self._status)

    def read_object(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:  # noqa: ARG002 - as its siblings
        match value.get("type") or value.get("event"):
            case "init":
                yield self._read_init(value)
            case "message":
                yield from self._read_message(value)
            case "tool_use":
                yield self._open_call(get_word(value, "tool_id"), get_word(value, "tool_name"), value.get("parameters"))
            case "tool_result":
                yield from self._read_tool_result(value)
            case "step_update":
                yield from self._read_step(get_object(value, "step_update"))
            case "error":
                yield self._read_error(value)
            case "result":
                self._read_result(value)
            case _:
                pass

    def finish(self, end: ProcessEnd, now: datetime) -> Iterator[AgentEvent]:
        finished = AgentFinished(
            ok=True,
            reason=FinishReason.COMPLETED,
            answer=self._answer.text,
            last_line=self._answer.last_line,
            session_id=self._session_id,
            usage=self._usage,
            turns=self._turns or None,
            model=self._model,
        )
        yield from emit_end(finished, self._explain(end, now))

    def _explain(self, end: ProcessEnd, now: datetime) -> Failure | None:
        if self._status and _SUCCESS_STATUS_PATTERN.fullmatch(self._status):
            return explain_exit(end)
        reason = _EXIT_REASONS.get(end.code or 0) if end.ended_by is EndedBy.ITSELF else None
        if self._status:
            text = self._last_error or f'It reports the status "{self._status}".'
            return explain_error(text, None, reason or FinishReason.AGENT_ERROR, now, self.zone)
        if reason is not None:
            text = self._last_error or find_cause_line(end.stderr) or f"It exited with code {end.code}."
            return explain_error(text, None, reason, now, self.zone)
        return explain_missing_result(end, now, self.zone, has_output=self.has_output, last_error=self._last_error)

    def _read_init(self, value: JsonObject) -> AgentEvent:
        self._session_id = get_word(value, "session_id") or get_word(value, "conversation_id")
        self._model = get_word(value, "model") or get_word(get_object(value, "init"), "model")
        return AgentStarted(session_id=self._session_id, model=self._model)

    def _read_message(self, value: JsonObject) -> Iterator[AgentEvent]:
        if value.get("role") != "assistant":
            return
        text, is_delta = get_text(value, "content"), value.get("delta") is True
        yield self._add_text(text, is_delta=is_delta)

    def _add_text(self, text: str, *, is_delta: bool) -> AgentEvent:
        """Add to the answer. It is the text since the last tool call, which comes in pieces."""
        continues = is_delta and not self._is_new_text
        if continues:
            self._answer.append(text)
        else:
            self._answer.set(text)
        self._is_new_text = False
        return AgentText(text=text, is_delta=continues)

    def _open_call(self, call_id: str, name: str, parameters: object) -> AgentEvent:
        self._is_new_text = True
        self._status = ""
        call = ToolCall(call_id=call_id, name=name or "tool", detail=summarize(parameters))
        if len(self._open_calls) < 10_000:
            self._open_calls[call_id] = call
        return call

    def _read_tool_result(self, value: JsonObject) -> Iterator[AgentEvent]:
        call_id, ok = get_word(value, "tool_id"), value.get("status") == "success"
        error = get_object(value, "error")
        detail = summarize(error.get("message") or value.get("output"))
        call = self._open_calls.pop(call_id, ToolCall(call_id=call_id, name="tool"))
        kind = get_word(error, "type")
        is_withheld = kind == _NOT_OFFERED and call.name in _TOOLS_WITH_CONSENT
        if not ok and (is_withheld or _DENIAL_PATTERN.search(f"{kind} {detail}")):
            yield ToolDenied(name=call.name, call_id=call_id, detail=call.detail or detail)
        yield ToolResult(call_id=call_id, ok=ok, detail=detail)

    def _read_step(self, step: JsonObject) -> Iterator[AgentEvent]:
        if text := get_text(step, "text_delta"):
            yield self._add_text(text, is_delta=True)
        tool = get_object(step, "tool_info")
        if not tool:
            return
        call_id, name = f"step-{get_count(step, 'step_index')}", get_word(tool, "name")
        if call_id not in self._open_calls:
            yield self._open_call(call_id, name, tool.get("parameters"))
        state = get_word(step, "state").upper()
        if state in _OPEN_STATES:
            return
        detail = summarize(tool.get("output") or tool.get("error"))
        if state in _DENIED_STATES or (state != "DONE" and _DENIAL_PATTERN.search(detail)):
            yield ToolDenied(name=name, call_id=call_id, detail=detail)
        yield ToolResult(call_id=call_id, ok=state == "DONE", detail=detail)

    def _read_error(self, value: JsonObject) -> AgentEvent:
        text = get_text(value, "message", 4_000) or get_text(get_object(value, "error"), "message", 4_000)
        if value.get("severity") != "warning":
            self._last_error = text
        return AgentNotice(text=text)

    def _read_result(self, value: JsonObject) -> None:
        result = get_object(value, "result") or value
        self._status = get_word(result, "status") or "without a status"
        self._session_id = self._session_id or get_word(result, "conversation_id")
        if response := get_text(result, "response"):
            self._answer.set(response)
        self._last_error = _error_text(result) or self._last_error
        self._turns = get_count(result, "num_turns")
        self._usage = _read_usage(get_object(result, "stats") or get_object(result, "usage"))


def _error_text(result: JsonObject) -> str:
    error = get_object(result, "error")
    kind = get_word(error, "type")
    words = (kind if kind != "unknown" else "", get_text(error, "message", 4_000))
    return " ".join(filter(None, words)) or get_text(result, "error", 4_000)


def _read_usage(stats: JsonObject) -> TokenUsage | None:
    """Return the tokens. What is paid as output is the rest of the total: `output_tokens` leaves thinking out."""
    if not stats:
        return None
    given, total = get_count(stats, "input_tokens"), get_count(stats, "total_tokens")
    return TokenUsage(
        input_tokens=given,
        cache_read_tokens=get_count(stats, "cached") or get_count(stats, "cache_read_tokens"),
        output_tokens=max(total - given, get_count(stats, "output_tokens")),
    )
