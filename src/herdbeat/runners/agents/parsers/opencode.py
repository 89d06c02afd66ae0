"""The output of `opencode run --format json`. It has no last line: the exit code and the last step decide."""

import re
from collections import Counter
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
    explain_missing_result,
)
from herdbeat.runners.agents.parsers.lines import (
    MAX_LINE_BYTES,
    AnswerBuffer,
    JsonObject,
    OutputLine,
    get_amount,
    get_count,
    get_object,
    get_status,
    get_text,
    get_word,
    summarize,
)

_PERMISSION_LINE_PATTERN = re.compile(
    r"^! ?permission requested: (?P<name>[\w-]+) ?(?:\((?P<detail>.*?)\))?[;,]? ?auto-reject"
)
_REJECTION_PATTERN = re.compile(
    r"rejected permission|permission.*(?:rejected|denied)|prevents you from using", re.IGNORECASE
)
_UNFINISHED_REASONS = frozenset({"tool-calls", "error"})
"""A step that ends so is followed by another one, unless a denial ended the run."""


class OpencodeParser(JsonLineParser):
    text_marks = (b"!",)

    def __init__(self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(zone, max_line_bytes)
        self._session_id = ""
        self._answer = AnswerBuffer()
        self._step_reason = ""
        self._error: tuple[str, int | None] | None = None
        self._usage: TokenUsage | None = None
        self._usd: float | None = None
        self._announced_denials: Counter[str] = Counter()
        self._is_denied = False
        self._steps = 0

    @property
    def has_result(self) -> bool:
        return False

    def read_object(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:  # noqa: ARG002 - as its siblings
        yield from self._read_session(value)
        part = get_object(value, "part")
        match value.get("type"):
            case "step_start":
                self._step_reason, self._error = "", None
                self._answer.set("")
            case "text":
                text = get_text(part, "text")
                self._answer.set(text)
                yield AgentText(text=text)
            case "tool_use":
                yield from self._read_tool(part)
            case "step_finish":
                yield self._read_step_finish(part)
            case "error":
                yield self._read_error(get_object(value, "error"))
            case _:
                pass

    def read_dropped(self, line: OutputLine) -> Iterator[AgentEvent]:
        if b'"type":"error"' in line.data.replace(b" ", b""):
            self._error = (f"The error has {line.size} bytes, which is more than can be read.", None)
        return super().read_dropped(line)

    def read_text(self, text: str) -> Iterator[AgentEvent]:
        match = _PERMISSION_LINE_PATTERN.match(text)
        if match is None:
            yield AgentNotice(text=text[:2_000])
            return
        self._is_denied = True
        self._announced_denials[match["name"][:100]] += 1
        yield ToolDenied(name=match["name"][:100], detail=summarize(match["detail"]))

    def finish(self, end: ProcessEnd, now: datetime) -> Iterator[AgentEvent]:
        finished = AgentFinished(
            ok=True,
            reason=FinishReason.COMPLETED,
            answer=self._answer.text,
            last_line=self._answer.last_line,
            session_id=self._session_id,
            usage=self._usage,
            usd=self._usd,
            turns=self._steps or None,
        )
        yield from emit_end(finished, self._explain(end, now))

    def _explain(self, end: ProcessEnd, now: datetime) -> Failure | None:
        if self._error is not None and end.code is not None and end.code >= 0:
            text, status = self._error
            return explain_error(text, status, FinishReason.AGENT_ERROR, now, self.zone)
        is_finished = bool(self._step_reason) and (self._step_reason not in _UNFINISHED_REASONS or self._is_denied)
        if end.is_clean and is_finished and self._error is None:
            return None
        last_error = self._error[0] if self._error else ""
        return explain_missing_result(end, now, self.zone, has_output=self.has_output, last_error=last_error)

    def _read_session(self, value: JsonObject) -> Iterator[AgentEvent]:
        session_id = get_word(value, "sessionID")
        if session_id and not self._session_id:
            self._session_id = session_id
            yield AgentStarted(session_id=session_id)

    def _read_tool(self, part: JsonObject) -> Iterator[AgentEvent]:
        """Read a call. It is reported once, when it has ended."""
        state, name, call_id = get_object(part, "state"), get_word(part, "tool"), get_word(part, "callID")
        detail = summarize(state.get("input"))
        yield ToolCall(call_id=call_id, name=name or "tool", detail=detail)
        ok = state.get("status") == "completed"
        output = summarize(state.get("output") if ok else state.get("error"))
        if not ok and _REJECTION_PATTERN.search(output):
            yield from self._deny(name, call_id, detail)
        yield ToolResult(call_id=call_id, ok=ok, detail=output)

    def _deny(self, name: str, call_id: str, detail: str) -> Iterator[AgentEvent]:
        """Report a denial, unless a line of text has announced it before."""
        self._is_denied = True
        if self._announced_denials[name] > 0:
            self._announced_denials[name] -= 1
            return
        yield ToolDenied(name=name or "tool", call_id=call_id, detail=detail)

    def _read_step_finish(self, part: JsonObject) -> AgentEvent:
        self._step_reason = get_word(part, "reason") or "unknown"
        self._steps += 1
        tokens, cache = get_object(part, "tokens"), get_object(part, "tokens", "cache")
        read, written = get_count(cache, "read"), get_count(cache, "write")
        step = TokenUsage(
            input_tokens=get_count(tokens, "input") + read + written,
            cache_read_tokens=read,
            cache_write_tokens=written,
            output_tokens=get_count(tokens, "output") + get_count(tokens, "reasoning"),
        )
        self._usage = (self._usage or TokenUsage()).plus(step)
        cost = get_amount(part, "cost")
        if cost is not None:
            self._usd = (self._usd or 0.0) + cost
        return UsageSeen(usage=self._usage, usd=self._usd)

    def _read_error(self, error: JsonObject) -> AgentEvent:
        data = get_object(error, "data")
        text = f"{get_word(error, 'name')}: {get_text(data, 'message', 4_000)}".strip(": ")
        self._error = (text or "It reported an error without words.", get_status(data, "statusCode"))
        return AgentNotice(text=text)
