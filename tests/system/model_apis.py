"""Four model APIs on the wire: what a request asks, and how a scripted reply is written. Pure.

Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, each streamed or in one piece. They answer
only as much as the agent CLIs read.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.system.model_script import (
    SEARCH_TOOL,
    Conversation,
    OfferedTool,
    ScriptedFailure,
    ScriptedReply,
    has_directive,
)

JsonValue = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """A response of the model server. `events` are streamed; without any, `body` is the whole answer."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: JsonValue = field(default_factory=dict)
    events: tuple[tuple[str, JsonValue], ...] = ()


class ModelApi(ABC):
    """One API. `now_s` is the epoch second of the request, for resets that are stated as a moment."""

    @abstractmethod
    def matches(self, path: str) -> bool:
        """Return True if requests to this path are of this API."""

    @abstractmethod
    def read(self, body: JsonValue) -> Conversation:
        """Return what decides about the answer."""

    @abstractmethod
    def write(self, path: str, body: JsonValue, reply: ScriptedReply) -> HttpReply:
        """Return a text or a tool call, with its usage."""

    @abstractmethod
    def write_failure(self, failure: ScriptedFailure, now_s: int) -> HttpReply:
        """Return an error in the shape of this API."""


def find_api(path: str) -> ModelApi | None:
    return next((api for api in APIS if api.matches(path)), None)


class AnthropicMessages(ModelApi):
    def matches(self, path: str) -> bool:
        return path.endswith("/v1/messages")

    def read(self, body: JsonValue) -> Conversation:
        users = [each for each in body.get("messages", []) if each.get("role") == "user"]
        return Conversation(
            prompts=[_text_of(each.get("content")) for each in users],
            tool_results=sum(
                part.get("type") == "tool_result"
                for each in _after_last_prompt(users, "content")
                for part in each.get("content") or []
                if isinstance(part, dict)
            ),
            tools=[OfferedTool(name=str(each.get("name"))) for each in body.get("tools") or []],
        )

    def write(self, path: str, body: JsonValue, reply: ScriptedReply) -> HttpReply:
        turn = len(body.get("messages", []))
        call = reply.call
        message = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": body.get("model")}
        message |= {"stop_sequence": None}
        stop_reason = "tool_use" if call else "end_turn"
        usage = {"input_tokens": reply.input_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        if call:
            block: JsonValue = {"type": "tool_use", "id": f"toolu_{turn}", "name": call.name, "input": {}}
            delta: JsonValue = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
        if not body.get("stream"):
            content = {**block, "input": call.arguments} if call else {**block, "text": reply.text}
            used = {**usage, "output_tokens": reply.output_tokens}
            return HttpReply(body={**message, "content": [content], "stop_reason": stop_reason, "usage": used})
        begun: JsonValue = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        ending = {"delta": {"stop_reason": stop_reason, "stop_sequence": None}}
        return _stream(
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", **ending, "usage": {"output_tokens": reply.output_tokens}},
            {"type": "message_stop"},
        )

    def write_failure(self, failure: ScriptedFailure, now_s: int) -> HttpReply:
        kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
        error = {"type": kinds.get(failure.status, "api_error"), "message": _describe(failure)}
        headers: dict[str, str] = {}
        if failure.status == 429:
            headers["retry-after"] = str(failure.resets_in_s)
        if failure.is_usage_limit:
            unified = "anthropic-ratelimit-unified"
            headers |= {
                f"{unified}-status": "rejected",
                f"{unified}-reset": str(now_s + failure.resets_in_s),
                f"{unified}-representative-claim": "five_hour",
                f"{unified}-5h-status": "rejected",
                f"{unified}-5h-reset": str(now_s + failure.resets_in_s),
            }
        return HttpReply(status=failure.status, headers=headers, body={"type": "error", "error": error})


class OpenAiResponses(ModelApi):
    def matches(self, path: str) -> bool:
        return path.endswith("/responses")

    def read(self, body: JsonValue) -> Conversation:
        given = [each for each in body.get("input") or [] if isinstance(each, dict)]
        return Conversation(
            prompts=[_text_of(each.get("content")) for each in given if each.get("role") == "user"],
            tool_results=sum(
                str(each.get("type", "")).endswith("_call_output") for each in _after_last_prompt(given, "content")
            ),
            tools=[*_read_response_tools(body.get("tools")), *self._read_found_tools(given)],
        )

    def _read_found_tools(self, given: list[JsonValue]) -> Iterator[OfferedTool]:
        for each in given:
            if each.get("type") == f"{SEARCH_TOOL}_output":
                yield from _read_response_tools(each.get("tools"))

    def write(self, path: str, body: JsonValue, reply: ScriptedReply) -> HttpReply:
        turn = len(body.get("input") or [])
        item: JsonValue
        if reply.call and reply.call.name == SEARCH_TOOL:
            item = {"type": f"{SEARCH_TOOL}_call", "id": f"ts_{turn}", "call_id": f"call_{turn}", "status": "completed"}
            item |= {"execution": "client", "arguments": dict(reply.call.arguments)}
        elif reply.call:
            item = {"type": "function_call", "id": f"fc_{turn}", "call_id": f"call_{turn}", "status": "completed"}
            item |= {"name": reply.call.name, "arguments": json.dumps(reply.call.arguments)}
            item |= {"namespace": reply.call.namespace} if reply.call.namespace else {}
        else:
            content = [{"type": "output_text", "text": reply.text, "annotations": []}]
            item = {"type": "message", "id": f"msg_{turn}", "role": "assistant", "content": content}
            item |= {"status": "completed"}
        usage = {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.input_tokens // 5},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        }
        done = {"id": f"resp_{turn}", "object": "response", "status": "completed", "model": body.get("model")}
        done |= {"output": [item], "usage": usage}
        if not body.get("stream"):
            return HttpReply(body=done)
        return _stream(
            {"type": "response.created", "response": {**done, "status": "in_progress", "output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        )

    def write_failure(self, failure: ScriptedFailure, now_s: int) -> HttpReply:
        error: JsonValue = {"type": "api_error", "message": _describe(failure)}
        if failure.is_usage_limit:
            error |= {"type": "usage_limit_reached", "plan_type": "plus"}
            error |= {"resets_in_seconds": failure.resets_in_s, "resets_at": now_s + failure.resets_in_s}
        elif failure.status == 429:
            error |= {"type": "rate_limit_exceeded", "code": "rate_limit_exceeded"}
        elif failure.status == 401:
            error |= {"type": "invalid_request_error", "code": "invalid_api_key"}
        return HttpReply(status=failure.status, headers=_retry_after(failure), body={"error": error})


class OpenAiChat(ModelApi):
    def matches(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, body: JsonValue) -> Conversation:
        messages = body.get("messages", [])
        return Conversation(
            prompts=[_text_of(each.get("content")) for each in messages if each.get("role") == "user"],
            tool_results=sum(each.get("role") == "tool" for each in _after_last_prompt(messages, "content")),
        )

    def write(self, path: str, body: JsonValue, reply: ScriptedReply) -> HttpReply:
        turn = len(body.get("messages", []))
        message: JsonValue = {"role": "assistant", "content": None if reply.call else reply.text}
        if reply.call:
            function = {"name": reply.call.name, "arguments": json.dumps(reply.call.arguments)}
            message["tool_calls"] = [{"index": 0, "id": f"call_{turn}", "type": "function", "function": function}]
        usage = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
        usage |= {"total_tokens": reply.input_tokens + reply.output_tokens}
        base = {"id": f"chat_{turn}", "created": 0, "model": body.get("model")}
        reason = "tool_calls" if reply.call else "stop"
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return HttpReply(body={**base, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**base, "object": "chat.completion.chunk"}
        return HttpReply(
            events=(
                ("", {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
                ("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}),
            )
        )

    def write_failure(self, failure: ScriptedFailure, now_s: int) -> HttpReply:
        kinds = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
        code = "insufficient_quota" if failure.is_usage_limit else kinds.get(failure.status, "server_error")
        error = {"message": _describe(failure), "type": code, "code": code}
        return HttpReply(status=failure.status, headers=_retry_after(failure), body={"error": error})


class Gemini(ModelApi):
    def matches(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def read(self, body: JsonValue) -> Conversation:
        contents = body.get("contents", [])
        return Conversation(
            prompts=[_text_of(each.get("parts")) for each in contents if each.get("role") == "user"],
            tool_results=sum("functionResponse" in json.dumps(each) for each in _after_last_prompt(contents, "parts")),
        )

    def write(self, path: str, body: JsonValue, reply: ScriptedReply) -> HttpReply:
        part: JsonValue = {"text": reply.text}
        if reply.call:
            part = {"functionCall": {"name": reply.call.name, "args": reply.call.arguments}}
        usage = {"promptTokenCount": reply.input_tokens, "candidatesTokenCount": reply.output_tokens}
        usage |= {"totalTokenCount": reply.input_tokens + reply.output_tokens}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        done = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}
        return HttpReply(events=(("", done),)) if ":stream" in path else HttpReply(body=done)

    def write_failure(self, failure: ScriptedFailure, now_s: int) -> HttpReply:
        words = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
        error: JsonValue = {"code": failure.status, "message": _describe(failure)}
        error |= {"status": words.get(failure.status, "INTERNAL")}
        if failure.status == 401:  # it calls a bad key an invalid argument
            error |= {"code": 400, "status": "INVALID_ARGUMENT", "message": "API key not valid."}
            return HttpReply(status=400, body={"error": error})
        if failure.status == 429:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{failure.resets_in_s}s"}]
        return HttpReply(status=failure.status, body={"error": error})


APIS: tuple[ModelApi, ...] = (AnthropicMessages(), OpenAiResponses(), OpenAiChat(), Gemini())


def _read_response_tools(tools: object) -> Iterator[OfferedTool]:
    """Read the tools of the Responses API, which may lie in a namespace."""
    for each in tools if isinstance(tools, list) else ():
        if each.get("type") == "namespace":
            yield from (OfferedTool(name=tool["name"], namespace=each["name"]) for tool in each["tools"])
        else:
            yield OfferedTool(name=str(each.get("name") or each.get("type")))


def _after_last_prompt(messages: list[Any], key: str) -> list[Any]:
    """Return what follows the last message with directives; everything if there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if has_directive(_text_of(messages[index].get(key))):
            return messages[index + 1 :]
    return messages


def _describe(failure: ScriptedFailure) -> str:
    if failure.is_usage_limit:
        return "You've hit your usage limit."
    words = {401: "invalid api key", 429: "This request would exceed your rate limit.", 529: "Overloaded"}
    return words.get(failure.status, "Internal server error")


def _retry_after(failure: ScriptedFailure) -> dict[str, str]:
    return {"retry-after": str(failure.resets_in_s)} if failure.status == 429 else {}


def _stream(*events: JsonValue) -> HttpReply:
    return HttpReply(events=tuple((str(each["type"]), each) for each in events))


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_texts(content))
    return ""


def _texts(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
