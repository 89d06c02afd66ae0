"""Models behind HTTP: the Chat Completions API of OpenAI, which many servers speak, and the API of Anthropic.

Every answer comes from outside: it is bounded in size, and whatever is wrong with it is a ModelRefusal.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from herdbeat.errors import truncate_for_message
from herdbeat.planner.base import (
    MessageRole,
    ModelCall,
    ModelMessage,
    ModelRefusal,
    ModelReply,
    PlannerTool,
)
from herdbeat.redaction import redact_known

MAX_ANSWER_BYTES = 2 * 1024 * 1024
MAX_OUTPUT_TOKENS = 4_096
ANTHROPIC_VERSION = "2023-06-01"
_MAX_ERROR_CHARS = 300
_MAX_COUNTED_TOKENS = 10**9

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAddress:
    """Where a model is, and with which key it is asked."""

    model: str
    base_url: str
    api_key: str = field(default="", repr=False)


class OpenAiModel:
    """A model behind `/chat/completions`."""

    def __init__(self, session: aiohttp.ClientSession, address: ModelAddress) -> None:
        self._session = session
        self._address = address
        self.name = address.model

    async def ask(self, messages: Sequence[ModelMessage], tools: Sequence[PlannerTool]) -> ModelReply:
        body: JsonObject = {
            "model": self.name,
            "messages": [_to_openai(each) for each in messages],
            "tools": [{"type": "function", "function": _describe(each, "parameters")} for each in tools],
        }
        key = self._address.api_key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = f"{self._address.base_url.rstrip('/')}/chat/completions"
        return _read_openai(await _post(self._session, url, body, headers))


class AnthropicModel:
    """A model behind `/v1/messages`."""

    def __init__(self, session: aiohttp.ClientSession, address: ModelAddress) -> None:
        self._session = session
        self._address = address
        self.name = address.model

    async def ask(self, messages: Sequence[ModelMessage], tools: Sequence[PlannerTool]) -> ModelReply:
        system = "\n\n".join(each.text for each in messages if each.role is MessageRole.SYSTEM)
        body: JsonObject = {
            "model": self.name,
            "max_tokens": MAX_OUTPUT_TOKENS,
            "system": system,
            "messages": _to_anthropic([each for each in messages if each.role is not MessageRole.SYSTEM]),
            "tools": [_describe(each, "input_schema") for each in tools],
        }
        headers = {"x-api-key": self._address.api_key, "anthropic-version": ANTHROPIC_VERSION}
        return _read_anthropic(
            await _post(self._session, f"{self._address.base_url.rstrip('/')}/v1/messages", body, headers)
        )


async def _post(session: aiohttp.ClientSession, url: str, body: JsonObject, headers: Mapping[str, str]) -> JsonObject:
    """Return the JSON object of the answer. Raises ModelRefusal."""
    try:
        async with session.post(url, json=body, headers=headers, allow_redirects=False) as response:
            data = await response.content.read(MAX_ANSWER_BYTES + 1)
            while len(data) <= MAX_ANSWER_BYTES and (more := await response.content.read(MAX_ANSWER_BYTES)):
                data += more
            status, retry_after = response.status, response.headers.get("Retry-After", "")
    except (aiohttp.ClientError, OSError) as error:
        raise ModelRefusal(f"The model cannot be reached: {type(error).__name__}.") from error
    if len(data) > MAX_ANSWER_BYTES:
        raise ModelRefusal(f"The answer of the model has more than {MAX_ANSWER_BYTES:,} bytes.")
    text = data.decode("utf-8", "replace")
    if status != 200:
        detail = truncate_for_message(redact_known(text), _MAX_ERROR_CHARS)
        raise ModelRefusal(f"The model answered HTTP {status}: {detail}", retry_after_s=_read_seconds(retry_after))
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise ModelRefusal("The answer of the model is not JSON.") from error
    except RecursionError as error:
        raise ModelRefusal("The answer of the model is nested too deep.") from error
    if not isinstance(answer, dict):
        raise ModelRefusal("The answer of the model is not a JSON object.")
    return answer


def _read_seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _describe(tool: PlannerTool, schema_key: str) -> JsonObject:
    return {"name": tool.name, "description": tool.description, schema_key: dict(tool.schema)}


def _to_openai(message: ModelMessage) -> JsonObject:
    match message.role:
        case MessageRole.TOOL:
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case MessageRole.MODEL:
            calls = [
                {
                    "id": each.id,
                    "type": "function",
                    "function": {"name": each.name, "arguments": json.dumps(dict(each.arguments))},
                }
                for each in message.calls
            ]
            answer: JsonObject = {"role": "assistant", "content": message.text or None}
            return answer | ({"tool_calls": calls} if calls else {})
        case _:
            return {"role": str(message.role), "content": message.text}


def _read_openai(answer: JsonObject) -> ModelReply:
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise ModelRefusal("The answer of the model has no message.")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    given = message.get("tool_calls")
    calls = [_read_openai_call(each) for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    content = message.get("content")
    return ModelReply(
        text=content if isinstance(content, str) else "",
        calls=tuple(calls),
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
    )


def _read_openai_call(call: JsonObject) -> ModelCall:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments, problem = _read_arguments(function.get("arguments"))
    name = str(function.get("name", ""))
    return ModelCall(id=str(call.get("id", "")), name=name, arguments=arguments, problem=problem)


def _read_arguments(given: object) -> tuple[Mapping[str, object], str]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError):
            return {}, "the arguments are not JSON"
    if not isinstance(given, dict):
        return {}, "the arguments are not a JSON object"
    return {str(key): _read_value(value) for key, value in given.items()}, ""


def _read_value(value: object) -> object:
    """Return an argument. No tool takes a list or an object, and one nested deep could not even be written again."""
    return f"({type(value).__name__})" if isinstance(value, dict | list) else value


def _to_anthropic(messages: Sequence[ModelMessage]) -> list[JsonObject]:
    """Return the messages in turns: the results of several calls are one message of the user."""
    turns: list[JsonObject] = []
    for message in messages:
        role = "assistant" if message.role is MessageRole.MODEL else "user"
        blocks: list[JsonObject] = [{"type": "text", "text": message.text}] if message.text else []
        if message.role is MessageRole.TOOL:
            blocks = [{"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}]
        blocks += [
            {"type": "tool_use", "id": each.id, "name": each.name, "input": dict(each.arguments)}
            for each in message.calls
        ]
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _read_anthropic(answer: JsonObject) -> ModelReply:
    content = answer.get("content")
    if not isinstance(content, list):
        raise ModelRefusal("The answer of the model has no content.")
    blocks = [each for each in content if isinstance(each, dict)]
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    calls = []
    for each in blocks:
        if each.get("type") == "tool_use":
            arguments, problem = _read_arguments(each.get("input"))
            name = str(each.get("name", ""))
            calls.append(ModelCall(id=str(each.get("id", "")), name=name, arguments=arguments, problem=problem))
    return ModelReply(
        text="\n".join(str(each.get("text", "")) for each in blocks if each.get("type") == "text"),
        calls=tuple(calls),
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
    )


def _count(value: object) -> int:
    """Return a number of tokens. One that no model can have used counts as the most that the ledger adds up."""
    return min(max(0, value), _MAX_COUNTED_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0
