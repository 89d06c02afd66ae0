"""The output of `codex exec --json`.

`turn.completed` is the success and `turn.failed` the failure; `error` may be followed by a retry. Usage is the total of
the whole thread, also of its earlier runs. It reports neither dollars nor the model.
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
    ProcessEnd,
    ToolCall,
    ToolDenied,
    ToolResult,
    UsageSeen,
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
    get_count,
    get_object,
    get_objects,
    get_text,
    get_word,
    summarize,
)

_MAX_OPEN_CALLS = 1_000
_API_ERROR_PATTERN = re.compile(
    r"experiencing high demand|at capacity|unexpected status \d|stream (?:error|disconnected)|error sending request",
    re.IGNORECASE,
)
_TOOL_ITEMS = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"})


class CodexParser(JsonLineParser):
    def __init__(self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(zone, max_line_bytes)
        self._thread_id = ""
        self._answer = AnswerBuffer()
        self._usage: TokenUsage | None = None
        self._turn_state = ""
        self._last_error = ""
        self._open_calls: set[str] = set()

    @property
    def has_result(self) -> bool:
        return self._turn_state in ("completed", "failed")

    def read_object(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:  # noqa: ARG002 - as its siblings
        match value.get("type"):
            case "thread.started":
                self._thread_id = get_word(value, "thread_id")
                yield AgentStarted(session_id=self._thread_id)
            case "turn.started":
                self._turn_state, self._last_error = "started", ""
                self._answer.set("")
            case "item.started":
                yield from self._open_call(get_object(value, "item"))
            case "item.completed":
                yield from self._read_item(get_object(value, "item"))
            case "turn.completed":
                self._turn_state = "completed"
                yield from self._read_usage(get_object(value, "usage"))
            case "turn.failed":
                self._turn_state = "failed"
                self._last_error = get_text(get_object(value, "error"), "message", 4_000) or self._last_error
            case "error":
                self._last_error = get_text(value, "message", 4_000)
                yield AgentNotice(text=self._last_error)
            case _:
                pass

    def finish(self, end: ProcessEnd, now: datetime) -> Iterator[AgentEvent]:
        finished = AgentFinished(
            ok=True,
            reason=FinishReason.COMPLETED,
            answer=self._answer.text,
            last_line=self._answer.last_line,
            session_id=self._thread_id,
            usage=self._usage,
        )
        yield from emit_end(finished, self._explain(end, now))

    def _explain(self, end: ProcessEnd, now: datetime) -> Failure | None:
        if self._turn_state == "completed":
            return explain_exit(end)
        if self._turn_state == "failed":
            text = self._last_error or "The turn failed without words."
            fallback = FinishReason.API_ERROR if _API_ERROR_PATTERN.search(text) else FinishReason.AGENT_ERROR
            return explain_error(text, None, fallback, now, self.zone)
        return explain_missing_result(end, now, self.zone, has_output=self.has_output, last_error=self._last_error)

    def _read_item(self, item: JsonObject) -> Iterator[AgentEvent]:
        kind = item.get("type")
        if kind in _TOOL_ITEMS:
            yield from self._close_call(item)
        elif kind == "agent_message":
            text = get_text(item, "text")
            self._answer.set(text)
            yield AgentText(text=text)
        elif kind == "error":
            yield AgentNotice(text=get_text(item, "message", 2_000))

    def _open_call(self, item: JsonObject) -> Iterator[AgentEvent]:
        if item.get("type") in _TOOL_ITEMS:
            if len(self._open_calls) < _MAX_OPEN_CALLS:
                self._open_calls.add(get_word(item, "id"))
            yield _to_call(item)

    def _close_call(self, item: JsonObject) -> Iterator[AgentEvent]:
        call = _to_call(item)
        if call.call_id not in self._open_calls:
            yield call  # a file change or a search has no item.started
        self._open_calls.discard(call.call_id)
        status = get_word(item, "status")
        if status == "declined":
            yield ToolDenied(name=call.name, call_id=call.call_id, detail=call.detail)
        yield ToolResult(
            call_id=call.call_id,
            ok=status in ("completed", "") and not item.get("error"),
            detail=summarize(
                item.get("aggregated_output") or item.get("error") or get_object(item, "result").get("content")
            ),
        )

    def _read_usage(self, usage: JsonObject) -> Iterator[AgentEvent]:
        if usage:
            self._usage = TokenUsage(
                input_tokens=get_count(usage, "input_tokens"),
                cache_read_tokens=get_count(usage, "cached_input_tokens"),
                cache_write_tokens=get_count(usage, "cache_write_input_tokens"),
                output_tokens=get_count(usage, "output_tokens"),
            )
            yield UsageSeen(usage=self._usage)


def _to_call(item: JsonObject) -> ToolCall:
    match item.get("type"):
        case "command_execution":
            name, detail = "shell", summarize(item.get("command"))
        case "mcp_tool_call":
            name = f"mcp__{get_word(item, 'server')}__{get_word(item, 'tool')}"
            detail = summarize(item.get("arguments"))
        case "file_change":
            changes = get_objects(item, "changes")
            paths = (f"{get_word(each, 'kind')} {get_word(each, 'path')}" for each in changes[:20])
            name, detail = "edit", summarize(", ".join(paths))
        case "web_search":
            name, detail = "web_search", summarize(item.get("query"))
        case _:
            name, detail = get_word(item, "tool") or "tool", summarize(item.get("prompt"))
    return ToolCall(call_id=get_word(item, "id"), name=name, detail=detail)
