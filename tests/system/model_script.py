"""What the model of the system tests answers: decided by the lines of a prompt that begin with `model:`. Pure.

    model: say Three issues triaged.             the text of the answer
    model: call Bash {"command": "ls"}           one tool call; after its result, the answer
    model: always call Bash {"command": "ls"}    the same call again after every result
    model: mcp wake_me {"after": "20m"}          a tool of an MCP server; several lines are called in turn
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
_MCP_CALL = re.compile(r"mcp (\w+) (\{.*\})")
SEARCH_TOOL = "tool_search"
"""Where it is offered, the tools of MCP servers have to be looked for before they can be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool that the model calls. `namespace` is where the API has one beside the name."""

    name: str
    arguments: Mapping[str, object]
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool that a CLI offers to the model."""

    name: str
    namespace: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.namespace.removesuffix('__')}__{self.name}" if self.namespace else self.name


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
    """The part of a request that decides: the texts of the user in order, the results of tools since the last prompt
    with directives, and the tools on offer.
    """

    prompts: Sequence[str] = field(default_factory=tuple)
    tool_results: int = 0
    tools: Sequence[OfferedTool] = field(default_factory=tuple)


def decide_reply(conversation: Conversation) -> ScriptedReply:
    """Return what the last prompt with directives asks for; without any, the default answer."""
    directives = next((found for text in reversed(conversation.prompts) if (found := _DIRECTIVE.findall(text))), [])
    values: dict[str, object] = {}
    mcp_calls = [each for each in directives if each.startswith("mcp ")]
    for directive in directives:
        if directive not in mcp_calls:
            values |= _read_directive(directive, has_tool_result=conversation.tool_results > 0)
    for directive in mcp_calls[conversation.tool_results :][:1]:
        values |= _read_mcp_call(directive, conversation.tools)
    return ScriptedReply(**values)  # type: ignore[arg-type]  # every value comes from _read_directive


def has_directive(text: str) -> bool:
    return _DIRECTIVE.search(text) is not None


def _read_mcp_call(directive: str, tools: Sequence[OfferedTool]) -> dict[str, object]:
    """Return the call under the name that the CLI gives the tool, or the search for it, or a complaint as the text."""
    match = _MCP_CALL.fullmatch(directive)
    if match is None:
        raise ValueError(f"write `mcp TOOL {{…}}`, not {directive!r}")
    found = next((each for each in tools if each.full_name.startswith("mcp__") and each.name.endswith(match[1])), None)
    if found is not None:
        return {"call": ScriptedCall(name=found.name, namespace=found.namespace, arguments=json.loads(match[2]))}
    if any(each.name == SEARCH_TOOL for each in tools):
        return {"call": ScriptedCall(name=SEARCH_TOOL, arguments={"query": f"herdbeat {match[1]}", "limit": 8})}
    return {"text": f"The CLI offers no tool {match[1]!r}, only {[each.full_name for each in tools]}."}


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
