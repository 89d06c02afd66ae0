"""Agents that really run: the fake CLI as a process, read while it prints."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.agent_jobs import StartLog, agent_spec, write_cli
from tests.support.runner_jobs import NOON, make_job

from herdbeat.domain.agent_run import AgentReport, FinishReason
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import AgentSpec, OnDenied, ToolMode, ToolPolicy
from herdbeat.runners.base import attached_report
from herdbeat.runners.process.process_tree import identify, is_alive
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import find_log, find_raw_output, read_log
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock


@pytest.fixture
def starts(tmp_path: Path) -> StartLog:
    return StartLog(tmp_path / "starts.jsonl")


@pytest.fixture
def settings(tmp_path: Path, starts: StartLog) -> RunnerSettings:
    return RunnerSettings(
        state_dir=tmp_path / "state",
        environ={"PATH": os.environ["PATH"], **starts.variables},
        interrupt_grace=timedelta(seconds=60),  # a loaded machine answers late
        kill_after=timedelta(seconds=0.3),
        pipe_grace=timedelta(seconds=0.3),
    )


@pytest.fixture
async def runners(settings: RunnerSettings) -> AsyncIterator[RunnerRegistry]:
    async with open_runners(settings, FakeClock(NOON)) as opened:
        yield opened


def report_of(outcome: Outcome) -> AgentReport:
    assert outcome.agent is not None
    return outcome.agent


def log_lines(settings: RunnerSettings, run_id: int = 1) -> list[str]:
    path = find_log(settings.state_dir, run_id)
    return [] if path is None else [line.text for line in read_log(path)]


async def test_an_agent_tells_its_answer_its_steps_and_its_cost(runners: RunnerRegistry, tmp_path: Path) -> None:
    outcome = await runners.run(make_job(agent_spec(tmp_path), "Triage the inbox. fake:cost=0.25"))

    report = report_of(outcome)
    assert (outcome.status, outcome.code, outcome.error) == (RunStatus.SUCCEEDED, 0, "")
    assert report.answer == outcome.summary == "Done: Triage the inbox."
    assert [(step.name, step.detail, step.ok) for step in report.steps] == [
        ("Read", "notes.md", True),
        ("Bash", "git log --oneline -5", True),
    ]
    assert report.counted.totals.usd == outcome.usage["usd"] == 0.25
    assert outcome.usage["tokens"] == 900 + 160
    assert outcome.session == report.session_id != ""
    assert (report.model, report.runtime) == ("fake-1", "fake")
    assert report.prompt == "Triage the inbox. fake:cost=0.25"


@pytest.mark.parametrize("speaks", ["codex", "gemini", "opencode"])
async def test_every_family_of_clis_goes_through_the_same_runner(
    runners: RunnerRegistry, tmp_path: Path, starts: StartLog, speaks: str
) -> None:
    spec = agent_spec(tmp_path, speaks, program=write_cli(tmp_path, speaks))

    outcome = await runners.run(make_job(spec, "Look around."))

    report = report_of(outcome)
    assert (outcome.status, report.answer) == (RunStatus.SUCCEEDED, "Done: Look around.")
    assert len(report.steps) == 2
    assert report.counted.totals.usage is not None
    assert report.counted.totals.usage.total == 1060
    assert starts.read()[0]["prompt"] == "Look around."


async def test_a_cli_of_plain_text_gets_its_prompt_in_a_private_file(
    runners: RunnerRegistry, tmp_path: Path, starts: StartLog, settings: RunnerSettings
) -> None:
    outcome = await runners.run(make_job(agent_spec(tmp_path, "aider", program=write_cli(tmp_path, "text")), "Look."))

    assert outcome.status is RunStatus.SUCCEEDED
    assert "Done: Look." in report_of(outcome).answer
    assert outcome.usage["usd"] == 0.01
    assert starts.read()[0]["prompt"] == "Look."
    assert list((settings.state_dir / "agents").iterdir()) == []


async def test_the_log_folds_tool_calls_and_the_raw_lines_lie_beside_it(
    runners: RunnerRegistry, settings: RunnerSettings, tmp_path: Path
) -> None:
    await runners.run(make_job(agent_spec(tmp_path), "Look.", run_id=1))

    raw = find_raw_output(settings.state_dir, 1)
    assert raw is not None
    assert log_lines(settings)[1:] == ["→ Read: notes.md", "→ Bash: git log --oneline -5", "Done: Look."]
    assert [json.loads(line)["type"] for line in raw.read_text().splitlines()][-1] == "result"
    assert raw.stat().st_mode & 0o777 == 0o600


async def test_the_flags_of_the_agent_reach_its_cli(runners: RunnerRegistry, tmp_path: Path, starts: StartLog) -> None:
    spec = agent_spec(
        tmp_path,
        model="opus",
        max_turns=7,
        system_prompt="Be brief.",
        permission_mode="plan",
        denied_tools=("WebFetch",),
        mcp_servers={"docs": {"url": "http://127.0.0.1:9/mcp"}},
        extra_dirs=("/srv/data",),
    )

    await runners.run(make_job(spec, "Look."))

    argv = starts.read()[0]["argv"]
    assert {"--model=opus", "--max-turns=7", "--permission-mode=plan", "--disallowedTools=WebFetch"} < set(argv)
    assert "--add-dir=/srv/data" in argv
    assert any(each.startswith("--system-prompt-file=") for each in argv)
    assert any(each.startswith("--mcp-config=") for each in argv)
    assert starts.read()[0]["cwd"] == str(tmp_path)


@pytest.mark.parametrize(
    ("words", "reason", "error"),
    [
        ("fake:limit=30m", FinishReason.RATE_LIMITED, "You've hit your session limit"),
        ("fake:auth", FinishReason.AUTH_FAILED, "Not logged in · Please run /login"),
        ("fake:overloaded", FinishReason.API_ERROR, "API Error: Repeated 529 Overloaded errors"),
        ("fake:max-turns", FinishReason.MAX_TURNS, "Reached maximum number of turns (2)"),
        ("fake:crash", FinishReason.REFUSED_TO_START, "fake agent: internal error"),
    ],
)
async def test_a_failure_has_the_reason_that_the_cli_gave(
    runners: RunnerRegistry, tmp_path: Path, words: str, reason: FinishReason, error: str
) -> None:
    outcome = await runners.run(make_job(agent_spec(tmp_path), words))

    assert (outcome.status, report_of(outcome).reason, outcome.error) == (RunStatus.FAILED, reason, error)


async def test_a_run_without_a_result_says_so_though_it_exits_with_zero(
    runners: RunnerRegistry, tmp_path: Path
) -> None:
    outcome = await runners.run(make_job(agent_spec(tmp_path), "fake:no-result"))

    assert (outcome.status, outcome.code) == (RunStatus.FAILED, 0)
    assert report_of(outcome).reason is FinishReason.NO_RESULT
    assert "without a result" in outcome.error


async def test_a_denied_tool_marks_the_run_or_fails_it(runners: RunnerRegistry, tmp_path: Path) -> None:
    marked = await runners.run(make_job(agent_spec(tmp_path), "fake:deny=Bash"))
    failed = await runners.run(make_job(agent_spec(tmp_path, on_denied=OnDenied.FAIL), "fake:deny=Bash"))

    assert (marked.status, report_of(marked).needs_you) == (RunStatus.SUCCEEDED, ("Bash: git push",))
    assert (failed.status, report_of(failed).reason) == (RunStatus.FAILED, FinishReason.DENIED)


async def test_a_program_that_is_not_installed_fails_with_the_fix(runners: RunnerRegistry, tmp_path: Path) -> None:
    outcome = await runners.run(make_job(agent_spec(tmp_path, "claude", program="claude-nowhere"), "Look."))

    assert outcome.status is RunStatus.FAILED
    assert outcome.error == 'There is no program "claude-nowhere" on the PATH. Install it, or write its full path.'


async def test_metadata_of_this_run_becomes_its_response_and_older_one_does_not(
    runners: RunnerRegistry, tmp_path: Path
) -> None:
    first = await runners.run(make_job(agent_spec(tmp_path), 'fake:metadata={"urgent":3}'))
    second = await runners.run(make_job(agent_spec(tmp_path), "Look."))

    assert first.response == {"urgent": 3}
    assert second.response is None


async def test_metadata_that_is_a_link_is_not_read(runners: RunnerRegistry, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"password": "x"}')
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "metadata.json").symlink_to(tmp_path / "secret.json")

    outcome = await runners.run(make_job(agent_spec(folder), "Look."))

    assert outcome.response is None


async def test_an_unknown_session_starts_a_new_one_and_says_so(
    settings: RunnerSettings, starts: StartLog, tmp_path: Path
) -> None:
    environ = {**settings.environ, "FAKE_AGENT_HOME": str(tmp_path / "sessions")}
    job = replace(make_job(agent_spec(tmp_path), "Look.", run_id=1), session_id="gone-1")

    async with open_runners(replace(settings, environ=environ), FakeClock(NOON)) as runners:
        outcome = await runners.run(job)

    assert outcome.status is RunStatus.SUCCEEDED
    assert outcome.session != "gone-1"
    assert not report_of(outcome).resumed
    assert len(starts.read()) == 2
    assert "fake does not know the session gone-1: the run starts in a new one" in log_lines(settings)


async def test_a_resumed_session_keeps_its_id(runners: RunnerRegistry, tmp_path: Path, starts: StartLog) -> None:
    outcome = await runners.run(replace(make_job(agent_spec(tmp_path), "Look."), session_id="s-1"))

    assert (outcome.session, report_of(outcome).resumed) == ("s-1", True)
    assert "--resume=s-1" in starts.read()[0]["argv"]


async def cancel_when_started(runners: RunnerRegistry, starts: StartLog, spec: AgentSpec, prompt: str) -> AgentReport:
    """Start the agent, wait for its first line, cancel the run; return what it had told."""
    task = asyncio.create_task(runners.run(make_job(spec, prompt, run_id=1)))
    async with asyncio.timeout(30):
        while not any("Bash" in line for line in read_started(starts)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    report = attached_report(cancelled.value)
    assert report is not None
    return report


def read_started(starts: StartLog) -> list[str]:
    logs = (starts.path.parent / "state" / "logs").glob("*/*.jsonl")
    return [line.text for path in logs for line in read_log(path)]


async def test_a_cancelled_agent_still_tells_what_it_has_cost(
    runners: RunnerRegistry, tmp_path: Path, starts: StartLog
) -> None:
    report = await cancel_when_started(runners, starts, agent_spec(tmp_path), "fake:hang fake:cost=0.4")

    assert not report.ok
    assert report.counted.totals.usd == 0.4
    assert report.session_id
    assert len(report.steps) == 2
    assert not is_alive(identify(starts.read()[0]["pid"]))


async def test_an_agent_that_ignores_every_signal_is_killed_with_its_children(
    settings: RunnerSettings, tmp_path: Path, starts: StartLog
) -> None:
    quick = replace(settings, interrupt_grace=timedelta(seconds=0.2))
    async with open_runners(quick, FakeClock(NOON)) as runners:
        report = await cancel_when_started(runners, starts, agent_spec(tmp_path), "fake:ignore-term fake:children")

    started = starts.read()[0]
    assert report.reason is FinishReason.INTERRUPTED
    assert len(started["children"]) == 2
    assert not any(is_alive(identify(pid)) for pid in (started["pid"], *started["children"]))


async def test_a_gigabyte_of_output_is_neither_kept_nor_waited_for(settings: RunnerSettings, tmp_path: Path) -> None:
    small = replace(settings, log_cap=100_000)
    async with open_runners(small, FakeClock(NOON)) as runners:
        outcome = await runners.run(make_job(agent_spec(tmp_path), "fake:flood=64m Look.", run_id=1))

    written = sum(path.stat().st_size for path in (settings.state_dir / "logs").rglob("*") if path.is_file())
    assert (outcome.status, report_of(outcome).answer) == (RunStatus.SUCCEEDED, "Done: Look.")
    assert written < 1_000_000


async def test_what_the_schedule_says_replaces_what_the_agent_says(
    runners: RunnerRegistry, tmp_path: Path, starts: StartLog
) -> None:
    spec = agent_spec(tmp_path, account="mine", tool_policy=ToolPolicy(mode=ToolMode.ALLOW_ALL))
    run_spec = RunSpec(tool_policy=ToolPolicy(mode=ToolMode.DENY_ALL), account="team", on_denied=OnDenied.FAIL)

    outcome = await runners.run(replace(make_job(spec, "fake:deny=Bash"), run_spec=run_spec))

    assert "--tools=" in starts.read()[0]["argv"]
    assert report_of(outcome).account == "team"
    assert report_of(outcome).reason is FinishReason.DENIED


async def test_a_budget_per_run_is_kept_by_the_cli(runners: RunnerRegistry, tmp_path: Path, starts: StartLog) -> None:
    job = make_job(agent_spec(tmp_path), "Look.")
    target = replace(job.target, budget=Budget(usd_per_run=0.5))

    await runners.run(replace(job, target=target))

    assert "--max-budget-usd=0.5" in starts.read()[0]["argv"]


async def test_agents_with_one_login_share_an_account_that_does_not_tell_its_key(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    program = write_cli(tmp_path, "claude")
    spec = agent_spec(tmp_path, "claude", program=program)
    accounts = []

    for key in ("sk-one", "sk-one", "sk-two"):
        environ = {**settings.environ, "ANTHROPIC_API_KEY": key}
        async with open_runners(replace(settings, environ=environ), FakeClock(NOON)) as runners:
            accounts.append(report_of(await runners.run(make_job(spec, "Look."))).account)

    assert accounts[0] == accounts[1] != accounts[2]
    assert all(account.startswith("claude-") and "sk-" not in account for account in accounts)


async def test_a_runtime_of_the_fleet_file_runs_by_its_template(runners: RunnerRegistry, tmp_path: Path) -> None:
    definition = {
        "program": write_cli(tmp_path, "text"),
        "argv": ["--message-file={prompt_file}", "{options}"],
        "prompt": "file",
        "options": {"model": ["--model={model}"]},
    }

    outcome = await runners.run(make_job(agent_spec(tmp_path, "house", preset=definition, model="m1"), "Look."))

    assert outcome.status is RunStatus.SUCCEEDED
    assert "Done: Look." in report_of(outcome).answer
    assert (report_of(outcome).runtime, report_of(outcome).model) == ("house", "m1")


async def test_a_key_that_an_agent_prints_is_recorded_nowhere(settings: RunnerSettings, tmp_path: Path) -> None:
    key = "sk-ant-api03-Zq7LwT1uVx9"
    environ = {**settings.environ, "ANTHROPIC_API_KEY": key}
    spec = agent_spec(tmp_path, "claude", program=write_cli(tmp_path, "claude"))

    async with open_runners(replace(settings, environ=environ), FakeClock(NOON)) as runners:
        outcome = await runners.run(make_job(spec, f"fake:answer={key}", run_id=1))

    files = [path for path in settings.state_dir.rglob("*") if path.is_file()]
    assert report_of(outcome).answer == "***"
    assert key not in repr(outcome.agent)  # the executor hides it in the output of every run
    assert files
    assert not any(key.encode() in path.read_bytes() for path in files)


async def test_a_prompt_that_the_cli_cannot_take_is_refused_before_the_start(
    runners: RunnerRegistry, tmp_path: Path, starts: StartLog
) -> None:
    spec = agent_spec(tmp_path, "copilot", program=write_cli(tmp_path, "text"))

    outcome = await runners.run(make_job(spec, "x" * 200_000))

    assert outcome.error == "The prompt has 200,000 bytes, and copilot takes at most 131,071. Shorten it."
    assert starts.read() == []


@pytest.mark.parametrize(
    "prompt", ["{{title}} $(touch pwned) `id`", "--dangerously-skip-permissions", "\x1b[31mred\x00", "x" * 1_000_000]
)
async def test_a_hostile_prompt_reaches_the_agent_as_inert_text(
    runners: RunnerRegistry, tmp_path: Path, starts: StartLog, prompt: str
) -> None:
    outcome = await runners.run(make_job(agent_spec(tmp_path), prompt))

    assert outcome.status is RunStatus.SUCCEEDED
    assert starts.read()[0]["prompt"] == prompt
    assert not (tmp_path / "pwned").exists()
    assert not any(prompt in argument for argument in starts.read()[0]["argv"])
