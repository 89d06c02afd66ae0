"""What the model of the system tests answers: decided by the lines of a prompt that begin with `model:`. Pure.

    model: say Three issues triaged.             the text of the answer
    model: call Bash {"command": "ls"}           one tool call; after its result, the answer
    model: always call Bash {"command": "ls"}    the same call again after every result
    model: tokens 1000 200                       input and output tokens of every answer
    model: limit 60                              429, with the reset in so many seconds where the API can say it
    model: usage limit 60                        the limit of a subscription, where the API has one
    model: fail 529                              this HTTP status
    model: hang                                  no answer until the client goes away

The directives of the last prompt count, so that a resumed session does not repeat those of its first turn.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DEFAULT_ANSWER = "Marigold: three issues triaged."
_DIRECTIVE = re.compile(r"^\s*model: (.+?)\s*$", re.MULTILINE)
_CALL = re.compile(r"(always )?call ([\w.-]+) (\{.*\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool that the model calls."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedFailure:
    """An answer that is an HTTP error. `resets_in_s` goes into headers and body where the API has a place for it."""

    status: int
    is_usage_limit: bool = False
    resets_in_s: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One answer of the model: a failure, a tool call, a text, or none at all."""

    text: str = DEFAULT_ANSWER
    call: ScriptedCall | None = None
    failure: ScriptedFailure | None = None
    hangs: bool = False
    input_tokens: int = 25
    output_tokens: int = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The part of a request that decides: the texts of the user in order, and whether a tool result came last."""

    prompts: Sequence[str] = field(default_factory=tuple)
    has_tool_result: bool = False


def decide_reply(conversation: Conversation) -> ScriptedReply:
    """Return what the last prompt with directives asks for; without any, the default answer."""
    directives = next((found for text in reversed(conversation.prompts) if (found := _DIRECTIVE.findall(text))), [])
    values: dict[str, object] = {}
    for directive in directives:
        values |= _read_directive(directive, has_tool_result=conversation.has_tool_result)
    return ScriptedReply(**values)  # type: ignore[arg-type]  # every value comes from _read_directive


def _read_directive(directive: str, *, has_tool_result: bool) -> dict[str, object]:
    word, _, rest = directive.partition(" ")
    if called := _CALL.fullmatch(directive):
        call = ScriptedCall(name=called[2], arguments=json.loads(called[3]))
        return {"call": call} if called[1] or not has_tool_result else {}
    match word:
        case "say":
            return {"text": rest}
        case "tokens":
            read, written = map(int, rest.split())
            return {"input_tokens": read, "output_tokens": written}
        case "hang":
            return {"hangs": True}
        case "fail":
            return {"failure": ScriptedFailure(status=int(rest))}
        case "limit":
            return {"failure": ScriptedFailure(status=429, resets_in_s=int(rest))}
        case "usage":
            seconds = int(rest.removeprefix("limit "))
            return {"failure": ScriptedFailure(status=429, is_usage_limit=True, resets_in_s=seconds)}
    raise ValueError(f"the model has no directive {directive!r}")
