"""Agents with the Claude Agent SDK, with a fake of the package: its messages have the fields of the real one."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.running_fleet import RunningFleet

from herdbeat.errors import MissingExtra
from herdbeat.python_api.claude_sdk import merge_options, run_claude_agent, to_line

STAND_IN = """\
from dataclasses import dataclass, field

class ClaudeSDKError(Exception): ...

@dataclass
class ClaudeAgentOptions:
    system_prompt: object = None
    allowed_tools: list = field(default_factory=list)
    disallowed_tools: list = field(default_factory=list)
    add_dirs: list = field(default_factory=list)
    resume: str | None = None
    session_id: str | None = None
    extra_args: dict = field(default_factory=dict)
    hooks: dict | None = None

@dataclass
class SystemMessage:
    subtype: str
    data: dict

@dataclass
class ToolUseBlock:
    id: str
    name: str
    input: dict

@dataclass
class TextBlock:
    text: str

@dataclass
class AssistantMessage:
    content: list
    model: str
    parent_tool_use_id: str | None = None
    usage: dict | None = None
    message_id: str | None = None
    session_id: str | None = None

@dataclass
class ResultMessage:
    subtype: str
    is_error: bool
    num_turns: int
    session_id: str
    result: str
    total_cost_usd: float
    usage: dict
    model_usage: dict | None = None

async def query(*, prompt, options):
    (asked,) = [each async for each in prompt]
    used = {"input_tokens": 10, "output_tokens": 5}
    yield SystemMessage("init", {"type": "system", "subtype": "init", "session_id": "s1", "model": "m"})
    yield AssistantMessage([ToolUseBlock("t1", "Bash", {"command": "ls"})], "m", usage=used, message_id="m1")
    if "fail" in asked["message"]["content"]:
        yield ResultMessage("success", True, 1, "s1", "API Error", 0.0, used)
        raise ClaudeSDKError("Claude Code returned an error result")
    answer = f"{options.hooks} {options.extra_args['model']}"
    yield AssistantMessage([TextBlock(answer)], "m", usage=used, message_id="m2")
    yield ResultMessage("success", False, 2, "s1", answer, 0.25, used)
"""
AGENT = """\
#!{python}
import sys
sys.path[:0] = {path!r}
from claude_agent_sdk import ClaudeAgentOptions
from herdbeat import run_claude_agent
run_claude_agent(ClaudeAgentOptions(hooks={{"PreToolUse": 1}}))
"""
FLEET = """\
version: 1
agents:
  - name: sdk
    runtime: claude
    program: ./agent.py
    model: opus
    budget: { runs_per_day: 9 }
    schedules:
      good: { type: webhook, prompt: Look around. }
      bad: { type: webhook, prompt: fail }
"""


@dataclass
class Options:
    """As many of the SDK's options as the arguments of Claude Code touch."""

    system_prompt: Any = None
    allowed_tools: list[str] = field(default_factory=list)
    disallowed_tools: list[str] = field(default_factory=list)
    add_dirs: list[str] = field(default_factory=list)
    resume: str | None = None
    session_id: str | None = None
    extra_args: dict[str, str | None] = field(default_factory=dict)


def test_the_arguments_for_claude_code_become_options_of_the_sdk() -> None:
    given = [
        *("-p", "--output-format", "stream-json", "--verbose", "--model=sonnet", "--max-turns=5"),
        *("--allowedTools=Read", "--allowedTools=Bash(git *)", "--add-dir=/data", "--strict-mcp-config"),
        *("--resume=5e55", "--permission-mode=acceptEdits"),
    ]

    merged = merge_options(Options(allowed_tools=["Glob"]), given)

    assert merged.allowed_tools == ["Glob", "Read", "Bash(git *)"]
    assert (merged.add_dirs, merged.resume) == (["/data"], "5e55")
    assert merged.extra_args == {
        "model": "sonnet",
        "max-turns": "5",
        "strict-mcp-config": None,
        "permission-mode": "acceptEdits",
    }
    assert merged.system_prompt == {"type": "preset", "preset": "claude_code"}, "never an empty one"


def test_a_message_that_tells_nothing_becomes_no_line() -> None:
    assert to_line(object()) is None


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)

    with pytest.raises(MissingExtra) as raised:
        run_claude_agent()

    assert ".[claude-sdk]" in raised.value.hint


def test_a_program_of_the_sdk_runs_as_claude_code_does(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "src"
    (tmp_path / "claude_agent_sdk.py").write_text(STAND_IN, encoding="utf-8")
    program = tmp_path / "agent.py"
    program.write_text(AGENT.format(python=sys.executable, path=[str(tmp_path), str(source)]), encoding="utf-8")
    program.chmod(0o755)
    fleet = RunningFleet(tmp_path)
    fleet.write(FLEET)

    with fleet.up("--no-server"):
        fleet.call("run", "sdk/good", "--wait")
        fleet.call("run", "sdk/bad", "--wait")
        good, bad = (json.loads(fleet.call("show", run, "--json").stdout) for run in ("0001", "0002"))

    assert (good["status"], good["answer"], good["session_id"]) == ("succeeded", "{'PreToolUse': 1} opus", "s1")
    assert (good["usage"]["usd"], good["usage"]["spend_source"]) == (0.25, "reported")
    assert [step["name"] for step in good["steps"]] == ["Bash"]
    assert (bad["status"], bad["error"]) == ("failed", "API Error")
