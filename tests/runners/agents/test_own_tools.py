"""Our MCP server as runs of agents are offered it, and what becomes of what they report through it."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_jobs import StartLog, agent_spec, write_cli
from tests.support.runner_jobs import NOON, make_job

from herdbeat.domain.agent_tools import RunReport
from herdbeat.domain.isolation import ContainerNetwork, ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.run import Outcome, RunStatus, add_report
from herdbeat.domain.target import ToolMode, ToolPolicy
from herdbeat.runners.agents.own_tools import OwnTools, RunGrant
from herdbeat.runners.base import attached_report
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import find_log, read_log
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.execute import describe_timeout
from herdbeat.testing.clock import FakeClock

TOKEN = f"hbt_run_1_{'a' * 40}"
BWRAP, DOCKER = (IsolationSpec(type=each) for each in (IsolationType.BWRAP, IsolationType.DOCKER))
HOST_NETWORK = IsolationSpec(type=IsolationType.DOCKER, container=ContainerSettings(network=ContainerNetwork.HOST))


@dataclass(slots=True)
class FakeToolLedger:
    """A ledger that gives every run the same token."""

    note: str = ""
    report: RunReport | None = None
    granted: list[int] = field(default_factory=list)

    async def grant(self, run_id: int) -> RunGrant:
        self.granted.append(run_id)
        return RunGrant(TOKEN, self.note)

    async def read_report(self, run_id: int) -> RunReport | None:
        assert run_id in self.granted
        return self.report


@pytest.fixture
def ledger() -> FakeToolLedger:
    return FakeToolLedger()


@pytest.fixture
def starts(tmp_path: Path) -> StartLog:
    return StartLog(tmp_path / "starts.jsonl")


@pytest.fixture
def settings(tmp_path: Path, starts: StartLog, ledger: FakeToolLedger) -> RunnerSettings:
    state_dir = tmp_path / "state"
    environ = {"PATH": os.environ["PATH"], **starts.variables}
    return RunnerSettings(
        state_dir=state_dir,
        environ=environ,
        own_tools=OwnTools(ledger=ledger, state_dir=state_dir, url="http://127.0.0.1:1"),
    )


@pytest.fixture
async def runners(settings: RunnerSettings) -> AsyncIterator[RunnerRegistry]:
    async with open_runners(settings, FakeClock(NOON)) as opened:
        yield opened


async def run_claude(runners: RunnerRegistry, folder: Path, prompt: str = "Look.", **options: Any) -> Outcome:
    spec = agent_spec(folder, "claude", program=write_cli(folder, "claude"), **options)
    return await runners.run(make_job(spec, prompt))


async def test_a_run_is_offered_our_server_with_a_token_of_its_own(
    runners: RunnerRegistry, starts: StartLog, tmp_path: Path
) -> None:
    await run_claude(runners, tmp_path)

    (start,) = starts.read()
    assert {"HERDBEAT_RUN_TOKEN", "HERDBEAT_RUN", "MCP_CONNECT_TIMEOUT_MS"} <= set(start["env"])
    assert any(each.startswith("--mcp-config=") for each in start["argv"])
    assert "--allowedTools=mcp__herdbeat" in start["argv"]
    assert TOKEN not in str(start["argv"])


async def test_codex_gets_the_token_by_its_environment_and_not_by_its_arguments(
    runners: RunnerRegistry, starts: StartLog, tmp_path: Path
) -> None:
    await runners.run(make_job(agent_spec(tmp_path, "codex", program=write_cli(tmp_path, "codex")), "Look."))

    (start,) = starts.read()
    overrides = [each for each in start["argv"] if each.startswith("mcp_servers.herdbeat.")]
    keys = {each.partition("=")[0].rpartition(".")[2] for each in overrides}
    assert keys == {"command", "args", "env_vars", "required", "startup_timeout_sec"}
    assert TOKEN not in str(start["argv"])
    assert "HERDBEAT_RUN_TOKEN" in start["env"]


async def test_an_agent_without_any_tools_is_not_offered_ours(
    runners: RunnerRegistry, ledger: FakeToolLedger, starts: StartLog, tmp_path: Path
) -> None:
    await run_claude(runners, tmp_path, tool_policy=ToolPolicy(mode=ToolMode.DENY_ALL))

    (start,) = starts.read()
    assert "HERDBEAT_RUN_TOKEN" not in start["env"]
    assert ledger.granted == []


async def test_the_note_of_a_wake_comes_back_in_the_prompt_as_the_agents_own(
    runners: RunnerRegistry, ledger: FakeToolLedger, starts: StartLog, tmp_path: Path
) -> None:
    ledger.note = "check the deploy"

    outcome = await run_claude(runners, tmp_path, "Look around.")

    (start,) = starts.read()
    assert start["prompt"].startswith(
        "Your own note, from when you asked to be woken now: check the deploy\n\nLook around."
    )
    assert outcome.agent is not None
    assert outcome.agent.prompt == start["prompt"]


async def test_what_an_agent_reports_becomes_the_outcome(
    runners: RunnerRegistry, ledger: FakeToolLedger, tmp_path: Path
) -> None:
    ledger.report = RunReport(summary="12 are open", metrics={"open": 12}, quiet=True)

    outcome = await run_claude(runners, tmp_path)

    assert (outcome.status, outcome.summary, outcome.response) == (RunStatus.SUCCEEDED, "12 are open", {"open": 12})
    assert outcome.agent is not None
    assert (outcome.agent.quiet, outcome.agent.needs_you) == (True, ())


async def test_an_agent_that_needs_a_person_is_never_quiet(
    runners: RunnerRegistry, ledger: FakeToolLedger, tmp_path: Path
) -> None:
    ledger.report = RunReport(summary="stuck", needs_you="which key?", quiet=True)

    outcome = await run_claude(runners, tmp_path)

    assert outcome.agent is not None
    assert (outcome.agent.quiet, outcome.agent.needs_you) == (False, ("which key?",))


async def test_a_run_that_its_agent_calls_failed_has_failed(
    runners: RunnerRegistry, ledger: FakeToolLedger, tmp_path: Path
) -> None:
    ledger.report = RunReport(summary="the tests do not pass", ok=False)

    outcome = await run_claude(runners, tmp_path)

    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "the tests do not pass")
    assert outcome.agent is not None
    assert outcome.agent.error_code == "agent_error"


async def test_an_agent_cannot_call_a_failure_of_its_cli_a_success(
    runners: RunnerRegistry, ledger: FakeToolLedger, tmp_path: Path
) -> None:
    ledger.report = RunReport(summary="all is well", ok=True, quiet=True)

    outcome = await run_claude(runners, tmp_path, "fake:error")

    assert outcome.status is RunStatus.FAILED
    assert outcome.agent is not None
    assert not outcome.agent.quiet


async def test_a_report_is_kept_when_the_run_is_cancelled_or_times_out_afterwards(
    runners: RunnerRegistry, ledger: FakeToolLedger, starts: StartLog, tmp_path: Path
) -> None:
    ledger.report = RunReport(summary="half is done", metrics={"open": 5}, needs_you="which key?")
    spec = agent_spec(tmp_path, "claude", program=write_cli(tmp_path, "claude"))
    running = asyncio.create_task(runners.run(make_job(spec, "fake:hang")))
    async with asyncio.timeout(30):
        while not starts.path.exists():  # noqa: ASYNC110 -- a file of another process
            await asyncio.sleep(0.02)

    running.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await running

    report = attached_report(cancelled.value)
    stopped = add_report(Outcome(status=RunStatus.CANCELLED), report)
    timed_out = describe_timeout(timedelta(hours=1), report)
    for outcome in (stopped, timed_out):
        assert (outcome.summary, outcome.response) == ("half is done", {"open": 5})
        assert outcome.agent is not None
        assert outcome.agent.needs_you == ("which key?",)
    assert (stopped.status, timed_out.status) == (RunStatus.CANCELLED, RunStatus.TIMED_OUT)


@pytest.mark.parametrize(
    ("isolation", "options", "server", "obstacle"),
    [
        (None, {"state_dir": Path("/s")}, "command", ""),
        (None, {"url": "http://127.0.0.1:1"}, "http://127.0.0.1:1/mcp", ""),
        (None, {}, "", "the fleet has no server that the run could reach"),
        (BWRAP, {"state_dir": Path("/s"), "url": "http://127.0.0.1:1"}, "http://127.0.0.1:1/mcp", ""),
        (IsolationSpec(type=IsolationType.BWRAP, network=False), {"url": "http://x"}, "", "the run has no network"),
        (DOCKER, {"url": "http://127.0.0.1:1"}, "", "the fleet has no server that the run could reach"),
        (DOCKER, {"url": "http://127.0.0.1:1", "public_url": "https://h.example"}, "https://h.example/mcp", ""),
        (HOST_NETWORK, {"url": "http://127.0.0.1:1"}, "http://127.0.0.1:1/mcp", ""),
    ],
)
def test_how_a_run_reaches_our_tools(
    ledger: FakeToolLedger, isolation: IsolationSpec | None, options: Mapping[str, Any], server: str, obstacle: str
) -> None:
    found = OwnTools(ledger=ledger, **options).describe_server(isolation, TOKEN)

    described = dict(found.server or {})
    assert described.get("url", "command" if "command" in described else "") == server
    assert found.obstacle == obstacle
    assert "/s" not in str(described) or isolation is None


async def test_a_run_that_cannot_reach_our_tools_says_so(
    tmp_path: Path, starts: StartLog, ledger: FakeToolLedger
) -> None:
    environ = {"PATH": os.environ["PATH"], **starts.variables}
    settings = RunnerSettings(state_dir=tmp_path / "state", environ=environ, own_tools=OwnTools(ledger=ledger))

    async with open_runners(settings, FakeClock(NOON)) as runners:
        await run_claude(runners, tmp_path)

    log = find_log(settings.state_dir, ledger.granted[0])
    assert log is not None
    assert any("not offered the tools of herdbeat" in line.text for line in read_log(log))
    assert "HERDBEAT_RUN_TOKEN" not in starts.read()[0]["env"]
