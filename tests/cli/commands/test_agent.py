"""`herdbeat agent test`: one tiny run with the agent's own settings, and what came back."""

import os
from pathlib import Path

import pytest
from tests.support.agent_jobs import StartLog

from herdbeat.clock import SystemClock
from herdbeat.testing.command_line import CommandLine

FLEET = """
version: 1
budget: { runs_per_day: 9 }
agents:
  - { name: triage, runtime: fake, model: opus, max_turns: 3, every: 1h, prompt: "Triage the inbox." }
  - { name: absent, runtime: codex, program: ./codex-nowhere, permission_mode: plan, every: 1h }
commands:
  - { name: tidy, command: [echo], every: 1h }
"""


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    return CommandLine(folder=tmp_path, clock=SystemClock(), environ={"PATH": os.environ["PATH"]})


def test_it_shows_what_came_back_and_records_nothing(cli: CommandLine, tmp_path: Path) -> None:
    starts = StartLog(tmp_path / "starts.jsonl")

    result = cli.run("agent", "test", "triage", **starts.variables)

    assert result.status == 0
    assert "answer    Done: Answer with the one word: ready." in result.out
    assert "model     opus" in result.out
    assert "used      $0.0100, 1060 tokens" in result.out
    assert {"--model=opus", "--max-turns=3"} < set(starts.read()[0]["argv"])
    assert not (tmp_path / ".herdbeat").exists()


def test_a_failure_has_its_reason_and_its_fix(cli: CommandLine) -> None:
    result = cli.run("agent", "test", "triage", "--prompt", "fake:max-turns")

    assert result.status == 5
    assert "failed    max_turns: Reached maximum number of turns (2)" in result.out
    assert "fix       Raise max_turns or budget.usd_per_run." in result.out


def test_a_missing_program_says_how_to_get_it(cli: CommandLine, tmp_path: Path) -> None:
    found = cli.run("agent", "test", "absent", "--json").json()

    assert (found["ok"], found["status"]) == (False, "failed")
    assert f'There is no file "{tmp_path / "codex-nowhere"}"' in found["error"]


def test_what_is_no_agent_is_refused(cli: CommandLine) -> None:
    unknown, command = cli.run("agent", "test", "nobody"), cli.run("agent", "test", "tidy")

    assert (unknown.status, command.status) == (3, 2)
    assert "Agents: triage, absent." in unknown.err
    assert "herdbeat run tidy" in command.err
