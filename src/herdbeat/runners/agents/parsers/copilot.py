"""The output of Copilot CLI (`--output-format json`): events with their `data`, and a last `result` with the exit code.

Plain text would not say which tools were denied, nor in which session the run was.
"""

from collections.abc import Iterator
from datetime import datetime, tzinfo

from herdbeat.domain.agent_run import FinishReason
from herdbeat.runners.agents.events import (
    AgentEvent,
    AgentFinished,
    AgentNotice,
    AgentText,
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
)
from herdbeat.runners.agents.parsers.lines import (
    MAX_LINE_BYTES,
    AnswerBuffer,
    JsonObject,
    OutputLine,
    get_object,
    get_status,
    get_text,
    get_word,
    summarize,
)

_DENIED = "denied"
_BY_RULE = "due to the following rules"
_MAX_OPEN_CALLS = 10_000


class CopilotParser(JsonLineParser):
    def __init__(self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(zone, max_line_bytes)
        self._session_id = ""
        self._model = ""
        self._answer = AnswerBuffer()
        self._exit_code: object = None
        self._last_error = ""
        self._last_status: int | None = None
        self._open_calls: dict[str, ToolCall] = {}

    @property
    def has_result(self) -> bool:
        return self._exit_code is not None

    def read_object(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:  # noqa: ARG002 - as its siblings
        data = get_object(value, "data")
        match value.get("type"):
            case "assistant.turn_start":
                self._exit_code = None  # a result of before is not that of this turn
            case "assistant.message":
                yield from self._read_message(data)
            case "tool.execution_start":
                yield self._open_call(data)
            case "tool.execution_complete":
                yield from self._close_call(data)
            case "session.error":
                yield self._read_error(data)
            case "session.info" | "session.warning":
                yield AgentNotice(text=get_text(data, "message", 2_000))
            case "result":
                self._session_id = get_word(value, "sessionId")
                self._exit_code = value.get("exitCode", "without an exit code")
            case _:
                pass  # pieces of a message, calls of the model, and what later versions add

    def read_dropped(self, line: OutputLine) -> Iterator[AgentEvent]:
        if b'"type":"result"' in line.data.replace(b" ", b""):
            self._exit_code = None
            self._last_error = f"The result has {line.size} bytes, which is more than can be read."
        return super().read_dropped(line)

    def finish(self, end: ProcessEnd, now: datetime) -> Iterator[AgentEvent]:
        finished = AgentFinished(
            ok=True,
            reason=FinishReason.COMPLETED,
            answer=self._answer.text,
            last_line=self._answer.last_line,
            session_id=self._session_id,
            model=self._model,
        )
        yield from emit_end(finished, self._explain(end, now))

    def _explain(self, end: ProcessEnd, now: datetime) -> Failure | None:
        code = self._exit_code
        if code is None:
            return explain_missing_result(end, now, self.zone, has_output=self.has_output, last_error=self._last_error)
        if code == 0 and not isinstance(code, bool):
            return explain_exit(end)
        text = self._last_error or f"It reports the exit code {summarize(code)}."
        return explain_error(text, self._last_status, FinishReason.AGENT_ERROR, now, self.zone)

    def _read_message(self, data: JsonObject) -> Iterator[AgentEvent]:
        self._last_error, self._last_status = "", None  # the model answers: what failed before was repeated
        self._model = get_word(data, "model") or self._model
        text, is_subagent = get_text(data, "content"), bool(data.get("parentToolCallId"))
        if not text:
            return
        if not is_subagent:
            self._answer.set(text)
        yield AgentText(text=text, is_subagent=is_subagent)

    def _open_call(self, data: JsonObject) -> AgentEvent:
        call = ToolCall(
            call_id=get_word(data, "toolCallId"),
            name=get_word(data, "toolName") or "tool",
            detail=summarize(data.get("arguments")),
            is_subagent=bool(data.get("parentToolCallId")),
        )
        if len(self._open_calls) < _MAX_OPEN_CALLS:
            self._open_calls[call.call_id] = call
        return call

    def _close_call(self, data: JsonObject) -> Iterator[AgentEvent]:
        call_id, ok = get_word(data, "toolCallId"), data.get("success") is True
        error = get_object(data, "error")
        message = get_text(error, "message", 2_000)
        call = self._open_calls.pop(call_id, ToolCall(call_id=call_id, name="tool"))
        if not ok and error.get("code") == _DENIED:
            is_rule = _BY_RULE in message
            yield ToolDenied(name=call.name, call_id=call_id, detail=call.detail or summarize(message), by_rule=is_rule)
        detail = message or get_text(get_object(data, "result"), "content", 2_000)
        yield ToolResult(call_id=call_id, ok=ok, detail=summarize(detail))

    def _read_error(self, data: JsonObject) -> AgentEvent:
        self._last_error = get_text(data, "message", 4_000) or get_word(data, "errorType")
        self._last_status = get_status(data, "statusCode")
        return AgentNotice(text=self._last_error)
