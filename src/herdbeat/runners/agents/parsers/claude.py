"""The output of Claude Code (`--output-format stream-json`), and of Qwen Code, Cursor and Amp, which resemble it.

What decides is the last `result` line: `is_error`, `terminal_reason`, `api_error_status` and `subtype` together. An
API failure has `subtype: success` and `is_error: true`; a 429 has `terminal_reason: completed` besides. A run in which
every tool was denied is a success with `permission_denials`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from herdbeat.domain.agent_run import FinishReason, LimitReached, TokenUsage, sum_usage
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
from herdbeat.runners.agents.limits import add_limit, is_limit_text, limit_from_epoch, limit_from_text, merge_limits
from herdbeat.runners.agents.parsers.base import (
    Failure,
    JsonLineParser,
    emit_end,
    explain_error,
    explain_exit,
    explain_missing_result,
    shorten,
)
from herdbeat.runners.agents.parsers.lines import (
    MAX_LINE_BYTES,
    AnswerBuffer,
    JsonObject,
    OutputLine,
    get_amount,
    get_count,
    get_object,
    get_objects,
    get_status,
    get_text,
    get_word,
    summarize,
)

_MAX_MESSAGES_COUNTED = 10_000

_FAILED_TERMINAL_REASONS = {
    "max_turns": FinishReason.MAX_TURNS,
    "budget_exhausted": FinishReason.BUDGET_EXHAUSTED,
    "api_error": FinishReason.API_ERROR,
    "model_error": FinishReason.API_ERROR,
    "prompt_too_long": FinishReason.AGENT_ERROR,
    "image_error": FinishReason.AGENT_ERROR,
    "blocking_limit": FinishReason.AGENT_ERROR,
    "rapid_refill_breaker": FinishReason.AGENT_ERROR,
    "malformed_tool_use_exhausted": FinishReason.AGENT_ERROR,
    "structured_output_retry_exhausted": FinishReason.AGENT_ERROR,
    "aborted_streaming": FinishReason.INTERRUPTED,
    "aborted_tools": FinishReason.INTERRUPTED,
    "turn_setup_failed": FinishReason.REFUSED_TO_START,
}
"""Reasons that mean a failure whatever else the result says. Reasons that are not listed leave the decision to it."""

_FAILED_SUBTYPES = {
    "error_max_turns": FinishReason.MAX_TURNS,
    "error_max_budget_usd": FinishReason.BUDGET_EXHAUSTED,
}
_MAX_TURNS_EXIT = 53
"""Qwen's, which then writes no result."""
_ERROR_ANSWER_PATTERN = re.compile(r"\s*\[API Error: (?:(\d{3})\b)?.*\]\s*", re.DOTALL)
"""Qwen calls a run a success whose whole answer is the error of the API."""
_AUTH_ERROR_KINDS = frozenset(
    {"authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClaudeResult:
    """One result line, reduced to what the end of the run needs."""

    ok: bool
    subtype: str
    terminal_reason: str
    status: int | None
    answer: str | None
    message: str
    startup_failure: str
    session_id: str
    usage: TokenUsage | None
    own_usage: TokenUsage | None
    usd: float | None
    turns: int


class ClaudeParser(JsonLineParser):
    def __init__(self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(zone, max_line_bytes)
        self._session_id = ""
        self._model = ""
        self._answer = AnswerBuffer()
        self._result: _ClaudeResult | None = None
        self._is_turn_open = False
        self._limit: LimitReached | None = None
        self._is_limit_in_force = False
        self._retry_limit: LimitReached | None = None
        self._last_error = ""
        self._usage_by_message: dict[str, TokenUsage] = {}
        self._counted: TokenUsage | None = None
        self._denied_calls: set[str] = set()

    @property
    def has_result(self) -> bool:
        return self._result is not None and not self._is_turn_open

    def read_object(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:
        match value.get("type"):
            case "system":
                yield from self._read_system(value, now)
            case "assistant":
                yield from self._read_assistant(value, now)
            case "user":
                yield from self._read_user(value)
            case "tool_call":
                yield from self._read_cursor_call(value)
            case "rate_limit_event":
                self._read_rate_limit(get_object(value, "rate_limit_info"), now)
            case "result":
                yield from self._read_result(value)
            case _:
                pass  # stream events, hook progress, keep-alives, and what later versions add

    def read_dropped(self, line: OutputLine) -> Iterator[AgentEvent]:
        if b'"type":"result"' in line.data.replace(b" ", b""):
            self._is_turn_open = True  # the result that counts cannot be read: whatever came before does not replace it
            self._result = None
            self._last_error = f"The result has {line.size} bytes, which is more than can be read."
        return super().read_dropped(line)

    def finish(self, end: ProcessEnd, now: datetime) -> Iterator[AgentEvent]:
        result = self._result
        if result is None or (self._is_turn_open and not end.is_clean):
            yield from emit_end(self._unfinished(), self._explain_missing(end, now))
            return
        failure = explain_exit(end) if result.ok else self._explain_failed(result, now)
        yield from emit_end(self._finished(result), failure)

    def _read_system(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:
        match value.get("subtype"):
            case "init" | "session_start":
                self._is_turn_open = True
                yield from self._read_init(value)
            case "permission_denied":
                yield from self._deny(
                    get_word(value, "tool_name"),
                    get_word(value, "tool_use_id"),
                    summarize(value.get("message")),
                    by_rule=value.get("decision_reason_type") == "rule",
                )
            case "api_retry":
                yield self._read_retry(value, now)
            case _:
                pass

    def _read_init(self, value: JsonObject) -> Iterator[AgentEvent]:
        session_id = get_word(value, "session_id")
        if session_id and session_id == self._session_id:
            return  # every turn has one
        self._session_id = session_id
        self._model = get_word(value, "model")
        servers = get_objects(value, "mcp_servers")
        broken = [get_word(each, "name") for each in servers if each.get("status") in ("failed", "needs-auth")]
        broken += [get_word(each, "name") for each in get_objects(value, "mcp_server_errors")]
        yield AgentStarted(
            session_id=session_id,
            model=self._model,
            is_subscription=value.get("apiKeySource") == "none",
            failed_mcp_servers=tuple(dict.fromkeys(name for name in broken if name)),
        )

    def _read_retry(self, value: JsonObject, now: datetime) -> AgentEvent:
        status, error = get_status(value, "error_status"), get_word(value, "error")
        if status == 429:
            self._retry_limit = limit_from_text(error, now, self.zone)
        attempt = f"{get_count(value, 'attempt')} of {get_count(value, 'max_retries')}"
        return AgentNotice(text=f"the API failed ({status or 'no status'} {error}); attempt {attempt} follows")

    def _read_assistant(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:
        message = get_object(value, "message")
        is_subagent = bool(value.get("parent_tool_use_id"))
        is_synthetic = message.get("model") == "<synthetic>"
        if not is_subagent:
            self._is_turn_open = True
        if not is_synthetic:  # the model answers: whatever was rejected before did not stop it
            self._retry_limit, self._is_limit_in_force = None, False
        for block in get_objects(message, "content"):
            yield from self._read_block(block, is_subagent=is_subagent, is_synthetic=is_synthetic)
        self._read_assistant_error(value, message, now)
        yield from self._count(message)

    def _read_block(self, block: JsonObject, *, is_subagent: bool, is_synthetic: bool) -> Iterator[AgentEvent]:
        match block.get("type"):
            case "text":
                text = get_text(block, "text")
                if not is_subagent and not is_synthetic:
                    self._answer.set(text)
                yield AgentText(text=text, is_subagent=is_subagent)
            case "tool_use":
                yield ToolCall(
                    call_id=get_word(block, "id"),
                    name=get_word(block, "name"),
                    detail=summarize(block.get("input")),
                    is_subagent=is_subagent,
                )
            case _:
                pass

    def _read_assistant_error(self, value: JsonObject, message: JsonObject, now: datetime) -> None:
        kind = get_word(value, "error")
        if not kind:
            return
        text = next((get_text(block, "text") for block in get_objects(message, "content")), "")
        self._last_error = text or kind
        if kind == "rate_limit":
            self._retry_limit = limit_from_text(text, now, self.zone)
        elif kind in _AUTH_ERROR_KINDS:
            self._last_error = f"{text} (authentication_failed)" if text else kind

    def _count(self, message: JsonObject) -> Iterator[AgentEvent]:
        """Count the tokens of a message once: it comes as one line per block, each with the same figures."""
        usage = read_usage(get_object(message, "usage"))
        key = get_word(message, "id")
        if usage is None or not key or self._usage_by_message.get(key) == usage:
            return
        known = self._usage_by_message.get(key)
        if known is None and len(self._usage_by_message) >= _MAX_MESSAGES_COUNTED:
            return
        self._usage_by_message[key] = usage
        self._counted = (self._counted or TokenUsage()).plus(usage).minus(known or TokenUsage())
        yield UsageSeen(usage=self._counted)

    def _read_user(self, value: JsonObject) -> Iterator[AgentEvent]:
        for block in get_objects(get_object(value, "message"), "content"):
            if block.get("type") == "tool_result":
                yield ToolResult(
                    call_id=get_word(block, "tool_use_id"),
                    ok=block.get("is_error") is not True,
                    detail=summarize(block.get("content")),
                )

    def _read_cursor_call(self, value: JsonObject) -> Iterator[AgentEvent]:
        """Read a call of Cursor: `{"shellToolCall": {"args": {…}, "result": {"success" | "rejected": …}}}`."""
        call_id = get_word(value, "call_id")
        name, call = next(
            ((key, part) for key, part in get_object(value, "tool_call").items() if isinstance(part, dict)),
            ("tool", {}),
        )
        name = summarize(name.removesuffix("ToolCall"))
        if value.get("subtype") == "started":
            self._is_turn_open = True
            yield ToolCall(call_id=call_id, name=name, detail=summarize(call.get("args")))
            return
        result = get_object(call, "result")
        if "rejected" in result or "permissionDenied" in result:
            yield from self._deny(name, call_id, summarize(call.get("args")))
        yield ToolResult(call_id=call_id, ok="success" in result)

    def _read_rate_limit(self, info: JsonObject, now: datetime) -> None:
        """Remember a rejection. It need not end the run: with paid overage the CLI continues."""
        if info.get("status") == "rejected" and info.get("isUsingOverage") is not True:
            window = get_word(info, "rateLimitType")
            self._limit = add_limit(self._limit, limit_from_epoch(get_amount(info, "resetsAt"), window, now))
            self._is_limit_in_force = True
        elif info.get("status") in ("allowed", "allowed_warning"):
            self._limit = None

    def _read_result(self, value: JsonObject) -> Iterator[AgentEvent]:
        self._result = _to_result(value)
        self._is_turn_open = False
        self._session_id = self._result.session_id or self._session_id
        for denial in get_objects(value, "permission_denials"):
            detail = summarize(denial.get("tool_input"))
            yield from self._deny(get_word(denial, "tool_name"), get_word(denial, "tool_use_id"), detail)

    def _deny(self, name: str, call_id: str, detail: str, *, by_rule: bool = False) -> Iterator[AgentEvent]:
        """Report a denial once: it comes as a line of its own, and again in the result."""
        if call_id and call_id in self._denied_calls:
            return
        if len(self._denied_calls) < _MAX_MESSAGES_COUNTED:
            self._denied_calls.add(call_id)
        yield ToolDenied(name=name or "tool", call_id=call_id, detail=detail, by_rule=by_rule)

    def _explain_missing(self, end: ProcessEnd, now: datetime) -> Failure:
        found = explain_missing_result(
            end,
            now,
            self.zone,
            has_output=self.has_output,
            last_error=self._last_error,
            seen=self._seen_limit(is_named=False),
        )
        if end.code == _MAX_TURNS_EXIT and found.reason is FinishReason.NO_RESULT:
            return found._replace(reason=FinishReason.MAX_TURNS)
        return found

    def _seen_limit(self, *, is_named: bool) -> LimitReached | None:
        """Return the limit that was announced, if it explains the end: it is still in force, or the error names one."""
        event = self._limit if is_named or self._is_limit_in_force else None
        return merge_limits(event, self._retry_limit)

    def _explain_failed(self, result: _ClaudeResult, now: datetime) -> Failure:
        if result.startup_failure:
            return Failure(FinishReason.REFUSED_TO_START, shorten(result.message or result.startup_failure))
        reason = _FAILED_SUBTYPES.get(result.subtype) or _FAILED_TERMINAL_REASONS.get(result.terminal_reason)
        if reason in (FinishReason.MAX_TURNS, FinishReason.BUDGET_EXHAUSTED, FinishReason.INTERRUPTED):
            return Failure(reason, shorten(result.message))
        fallback = reason or FinishReason.AGENT_ERROR
        text = result.message
        if self._last_error.startswith(text):
            text = self._last_error  # the same words, and what kind of error it is
        seen = self._seen_limit(is_named=result.status == 429 or is_limit_text(text))
        found = explain_error(text, result.status, fallback, now, self.zone, seen)
        return found._replace(message=shorten(result.message) or found.message or "It reported an error without words.")

    def _finished(self, result: _ClaudeResult) -> AgentFinished:
        buffer = self._answer
        if result.ok and result.answer is not None:
            buffer = AnswerBuffer()
            buffer.set(result.answer)
        return AgentFinished(
            ok=True,
            reason=FinishReason.COMPLETED,
            answer=buffer.text,
            last_line=buffer.last_line,
            session_id=self._session_id,
            usage=result.usage or self._counted,
            own_usage=result.own_usage,
            usd=result.usd,
            turns=result.turns or None,
            model=self._model,
        )

    def _unfinished(self) -> AgentFinished:
        return AgentFinished(
            ok=False,
            reason=FinishReason.NO_RESULT,
            answer=self._answer.text,
            last_line=self._answer.last_line,
            session_id=self._session_id,
            usage=self._counted,
            own_usage=self._counted,
            is_partial=True,
            model=self._model,
        )


def _to_result(value: JsonObject) -> _ClaudeResult:
    subtype, terminal_reason = get_word(value, "subtype"), get_word(value, "terminal_reason")
    status = get_status(value, "api_error_status")
    usage = get_object(value, "usage")
    own = read_usage(usage)
    error_answer = _ERROR_ANSWER_PATTERN.fullmatch(get_text(value, "result", 4_000))
    if error_answer and error_answer[1] and status is None:
        status = int(error_answer[1])
    ok = (
        value.get("is_error") is False
        and not error_answer
        and not subtype.startswith("error")
        and terminal_reason not in _FAILED_TERMINAL_REASONS
        and (status is None or status < 400)
    )
    return _ClaudeResult(
        ok=ok,
        subtype=subtype,
        terminal_reason=terminal_reason,
        status=status,
        answer=get_text(value, "result") if isinstance(value.get("result"), str) else None,
        message=_error_text(value) or subtype,
        startup_failure=get_word(value, "startup_failure_reason"),
        session_id=get_word(value, "session_id"),
        usage=_sum_models(get_object(value, "modelUsage")) or own,
        own_usage=None if "total_tokens" in usage else own,  # Qwen's is that of the whole session
        usd=get_amount(value, "total_cost_usd"),
        turns=get_count(value, "num_turns"),
    )


def _error_text(value: JsonObject) -> str:
    errors = value.get("errors")
    listed = "; ".join(each for each in errors if isinstance(each, str)) if isinstance(errors, list) else ""
    return get_text(value, "result", 4_000) or shorten(listed) or get_text(value, "error", 4_000)


def _sum_models(models: JsonObject) -> TokenUsage | None:
    """Return the tokens of all models. They include those of subagents, which `usage` does not."""
    parts = [read_usage(part, camel_case=True) for part in models.values() if isinstance(part, dict)]
    found = sum_usage(part for part in parts if part is not None)
    return found if found.total else None


def read_usage(value: JsonObject, *, camel_case: bool = False) -> TokenUsage | None:
    """Return the tokens of a usage object; None if it has none. Qwen's input, as OpenAI's, includes what was cached."""
    if not value:
        return None
    names = (
        ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
        if camel_case
        else ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    )
    plain, read, written, output = (get_count(value, name) for name in names)
    includes_cache = get_count(value, "total_tokens") == plain + output > 0
    return TokenUsage(
        input_tokens=plain if includes_cache else plain + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
    )
