"""Agents with the Claude Agent SDK: a program that herdbeat starts in the place of `claude`, with hooks in Python.

It takes the arguments that herdbeat gives to Claude Code and the prompt on stdin, and prints the same lines. So all
that holds for the CLI holds for it, too: its processes end with its run, and its answer, steps, cost, session and usage
limit are read from its output.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from herdbeat.errors import MissingExtra

_OWN_FLAGS = frozenset({"p", "print", "output-format", "input-format", "verbose", "include-partial-messages"})
"""Flags of a conversation on stdout, which the SDK sets itself."""

_LIST_FIELDS = {"allowedTools": "allowed_tools", "disallowedTools": "disallowed_tools", "add-dir": "add_dirs"}
"""Flags that may come several times, and the options of the SDK that have all of their values."""

_TEXT_FIELDS = {"resume": "resume", "session-id": "session_id"}
_BLOCK_TYPES = {
    "TextBlock": "text",
    "ThinkingBlock": "thinking",
    "ToolUseBlock": "tool_use",
    "ToolResultBlock": "tool_result",
}
_DEFAULT_PROMPT = {"type": "preset", "preset": "claude_code"}
"""The system prompt of Claude Code. Without one, the SDK asks the model with an empty one."""


def run_claude_agent(options: object = None, argv: Sequence[str] | None = None) -> None:
    """Run as an agent of herdbeat, and exit: write it at the end of a program, and name that as `program:`.

    `options` are ClaudeAgentOptions of the SDK. What the fleet file says is added to them, and wins where both say
    something. Raises MissingExtra without the package `claude-agent-sdk`.
    """
    sdk = _load_sdk()
    given = list(sys.argv[1:] if argv is None else argv)
    base = sdk.ClaudeAgentOptions() if options is None else options
    if not given or given[0] in ("auth", "--version"):  # doctor asks whether it is there and logged in
        cli = _find_cli(sdk, base)
        os.execv(cli, [cli, *given])  # noqa: S606  the CLI of the SDK, as the user installed it
    # Ctrl-C and herdbeat's own interrupt reach the CLI, which then ends with a result: it must still be printed.
    signal.signal(signal.SIGINT, lambda *_: None)
    prompt = sys.stdin.read()
    sys.exit(asyncio.run(_converse(sdk, prompt, merge_options(base, given), sys.stdout.write)))


def merge_options(base: Any, argv: Sequence[str]) -> Any:
    """Return the options with the arguments that herdbeat gives to Claude Code. Pure."""
    changes: dict[str, Any] = {"extra_args": dict(base.extra_args)}
    for flag, value in _parse_flags(argv):
        if flag in _LIST_FIELDS:
            name = _LIST_FIELDS[flag]
            changes[name] = [*changes.get(name, getattr(base, name)), value]
        elif flag in _TEXT_FIELDS:
            changes[_TEXT_FIELDS[flag]] = value
        elif flag not in _OWN_FLAGS:
            changes["extra_args"][flag] = value
    if base.system_prompt is None:
        # As a preset it becomes no flag, and leaves the place to a file that herdbeat names.
        changes["system_prompt"] = dict(_DEFAULT_PROMPT)
    return replace(base, **changes)


def _parse_flags(argv: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return names and values of `--name=value`, `--name value` and `--name`, in their order."""
    flags: list[tuple[str, str | None]] = []
    for word in argv:
        if word.startswith("-"):
            name, is_given, value = word.lstrip("-").partition("=")
            flags.append((name, value if is_given else None))
        elif flags and flags[-1][1] is None:
            flags[-1] = (flags[-1][0], word)
    return flags


async def _converse(sdk: Any, prompt: str, options: Any, write: Callable[[str], object]) -> int:
    """Print every message of the conversation as a line of Claude Code; return the exit status."""
    is_error = False
    try:
        async for message in sdk.query(prompt=_ask(prompt), options=options):
            line = to_line(message)
            if line is not None:
                write(json.dumps(line, default=str) + "\n")
                sys.stdout.flush()
                is_error = is_error or bool(line.get("is_error"))
    except sdk.ClaudeSDKError as error:  # after a result with an error, whose line says why
        sys.stderr.write(f"{error}\n")
        return 1
    return int(is_error)


async def _ask(prompt: str) -> AsyncIterator[dict[str, object]]:
    """Yield the prompt as a stream: only then the SDK can call hooks and ask for permissions."""
    yield {"type": "user", "message": {"role": "user", "content": prompt}, "parent_tool_use_id": None}


def to_line(message: object) -> dict[str, Any] | None:
    """Return a message of the SDK as the line of Claude Code that it was read from; None for messages that report
    nothing. The class name of a message identifies its type: the package may be missing where this is imported.
    """
    kind = type(message).__name__
    fields: dict[str, Any] = asdict(message) if is_dataclass(message) and not isinstance(message, type) else {}
    if kind == "ResultMessage":
        return {"type": "result", **fields, "modelUsage": fields.get("model_usage")}
    if kind == "RateLimitEvent":
        return {"type": "rate_limit_event", "rate_limit_info": fields["rate_limit_info"].get("raw", {})}
    if kind in ("AssistantMessage", "UserMessage"):
        content = getattr(message, "content", "")
        blocks = content if isinstance(content, str) else [_to_block(each) for each in content]
        role = "assistant" if kind == "AssistantMessage" else "user"
        inner = {"role": role, "content": blocks, "id": fields.get("message_id")}
        inner |= {name: fields[name] for name in ("model", "usage", "stop_reason") if name in fields}
        return {"type": role, "message": inner} | {
            name: fields.get(name) for name in ("parent_tool_use_id", "session_id", "error")
        }
    data = fields.get("data")
    return data if isinstance(data, dict) else None  # a SystemMessage, or one of its kinds


def _to_block(block: object) -> dict[str, Any]:
    fields = asdict(block) if is_dataclass(block) and not isinstance(block, type) else {}
    return {"type": _BLOCK_TYPES.get(type(block).__name__, "other"), **fields}


def _find_cli(sdk: Any, options: Any) -> str:
    """Return the CLI that the SDK would start: the named one, its own, or that on the PATH."""
    bundled = Path(sdk.__file__).parent / "_bundled" / "claude"
    named = getattr(options, "cli_path", None)
    found = os.fspath(named) if named else os.fspath(bundled) if bundled.is_file() else shutil.which("claude")
    if found is None:
        sys.exit("There is no claude. Install it: npm install -g @anthropic-ai/claude-code")
    return found


def _load_sdk() -> Any:
    try:
        return import_module("claude_agent_sdk")
    except ImportError as error:
        raise MissingExtra("An agent with the Claude Agent SDK", "claude-sdk") from error
