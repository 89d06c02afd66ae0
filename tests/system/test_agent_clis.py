"""Each real CLI by our preset and parser, without the scheduler: what it is told, and what we understand of it.

`test_agent_fleet.py` runs them through `herdbeat up`. A difference between the two is ours; a failure here means that
a CLI has changed.
"""

import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.system.agent_clis import (
    CLAUDE,
    CODEX,
    GEMINI,
    MADE_FILE,
    QWEN,
    AgentCli,
    AgentHome,
    find_processes,
    needs_cli,
)
from tests.system.direct_run import run_cli, start_cli
from tests.system.model_server import BAD_KEY, ModelServer

from herdbeat.domain.agent_run import FinishReason


def test_the_answer_and_its_tokens_are_understood(cli: AgentCli, home: AgentHome, model: ModelServer) -> None:
    run = run_cli(cli, home, "Look at the issues.\nmodel: say Nothing new.\nmodel: tokens 1000 200")

    report = run.report
    assert (report.ok, report.answer, report.needs_you) == (True, "Nothing new.", ())
    assert report.session_id
    assert report.counted.totals.usage is not None
    usage = report.counted.totals.usage
    assert usage.input_tokens % 1000 == 0
    assert usage.output_tokens % 200 == 0
    assert usage.input_tokens
    assert ((report.counted.totals.usd or 0) > 0) is cli.reports_usd
    asked = [each for each in model.requests if each.path.endswith(cli.api_path) and each.has_prompt("the issues.")]
    assert asked
    assert {each.key for each in asked} == {home.key}


def test_a_tool_that_is_allowed_acts(cli: AgentCli, home: AgentHome) -> None:
    prompt = f"Make it.\nmodel: {cli.shell_call}\nmodel: say Made."

    run = run_cli(cli, home, prompt, permission_mode="bypassPermissions")

    assert (home.workspace / MADE_FILE).exists()
    assert (run.report.ok, run.report.answer, run.report.needs_you) == (True, "Made.", ())
    assert [(step.ok, "touch" in step.detail) for step in run.report.steps] == [(True, True)]


def test_a_tool_that_nobody_allowed_does_nothing_and_asks_for_you(cli: AgentCli, home: AgentHome) -> None:
    prompt = f"Make it.\nmodel: {cli.shell_call}\nmodel: say Could not."

    run = run_cli(cli, home, prompt, permission_mode="default")

    assert not (home.workspace / MADE_FILE).exists()
    assert run.report.ok
    assert not any(step.ok for step in run.report.steps), run.out + run.err
    assert [MADE_FILE in need for need in run.report.needs_you] == ([True] if cli.denies_tools else [])


def test_a_refused_key_is_a_failed_login(cli: AgentCli, home: AgentHome, model: ModelServer) -> None:
    stranger = dataclasses.replace(home, key=BAD_KEY)
    stranger.write_settings()

    run = run_cli(cli, stranger, "model: say hello")

    assert (run.report.ok, run.report.reason) == (False, FinishReason.AUTH_FAILED)
    assert run.report.message
    assert BAD_KEY in {each.key for each in model.requests}


def test_a_resumed_session_continues_the_old_one(cli: AgentCli, home: AgentHome, model: ModelServer) -> None:
    first = run_cli(cli, home, "Remember the marigold.\nmodel: say Noted.").report

    second = run_cli(cli, home, "model: say Marigold.", session_id=first.session_id).report

    assert (second.ok, second.answer) == (True, "Marigold.")
    assert second.session_id == first.session_id
    last = [each for each in model.requests if each.has_prompt("say Marigold.")]
    assert any(each.has_prompt("Remember the marigold.") for each in last)


def test_an_unknown_session_is_recognised(cli: AgentCli, home: AgentHome, model: ModelServer) -> None:
    unknown = "ses_e15969c0cffe1VxZ8K55YuMfXX" if cli.name == "opencode" else "0199a213-81c0-7800-8aa1-bbab2a035a53"

    run = run_cli(cli, home, "model: say hello", session_id=unknown)

    assert (run.report.ok, run.report.reason) == (False, FinishReason.UNKNOWN_SESSION)
    assert model.requests == []


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CLAUDE, CODEX)])
@pytest.mark.parametrize("status", [500, 529])
def test_a_failing_api_is_no_usage_limit(cli: AgentCli, status: int, home: AgentHome, model: ModelServer) -> None:
    """The others repeat such a request for minutes, until their run is out of time."""
    run = run_cli(cli, home, f"model: fail {status}")

    assert (run.report.ok, run.report.reason, run.report.limit) == (False, FinishReason.API_ERROR, None)
    assert [each.status for each in model.requests] == [status]


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CLAUDE, CODEX, GEMINI)])
def test_a_refusal_for_too_many_requests_is_a_usage_limit(cli: AgentCli, home: AgentHome) -> None:
    run = run_cli(cli, home, "model: limit 3600")

    assert (run.report.ok, run.report.reason) == (False, FinishReason.RATE_LIMITED)
    assert run.report.limit is not None


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CODEX, GEMINI)])
def test_a_usage_limit_has_its_reset_where_the_cli_tells_it(cli: AgentCli, home: AgentHome) -> None:
    before = datetime.now(UTC)

    run = run_cli(cli, home, "model: usage limit 3600")

    assert run.report.limit is not None
    assert run.report.limit.reset_at is not None
    until = run.report.limit.reset_at - before
    assert timedelta(minutes=58) < until < timedelta(minutes=65)


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CLAUDE, QWEN)])
def test_a_run_ends_after_as_many_turns_as_it_may_take(cli: AgentCli, home: AgentHome, model: ModelServer) -> None:
    call = "Bash" if cli is CLAUDE else "list_directory"
    arguments = {"command": "ls", "description": "List"} if cli is CLAUDE else {"path": str(home.workspace)}

    run = run_cli(cli, home, f"model: always call {call} {json.dumps(arguments)}", max_turns=2)

    assert (run.report.ok, run.report.reason) == (False, FinishReason.MAX_TURNS)
    assert len(model.requests) == 2


def test_a_cli_that_waits_for_its_model_ends_when_it_is_interrupted(
    cli: AgentCli, home: AgentHome, model: ModelServer
) -> None:
    running = start_cli(cli, home, "model: hang")
    model.wait_until_asked("model: hang")

    run = running.end_by_timeout()

    assert (run.report.ok, run.report.reason) == (False, FinishReason.TIMED_OUT)
    model.wait_for(lambda log: not any(each.is_waiting for each in log))
    assert find_processes(home.folder) == []
