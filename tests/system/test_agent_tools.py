"""Real agent CLIs that schedule themselves: they list our tools, call them, and the next beat comes when they asked."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.system.agent_clis import CLAUDE, CODEX, AgentCli, AgentHome, needs_cli
from tests.system.agent_fleet import AgentFleet, agent
from tests.system.model_apis import find_api
from tests.system.model_server import ModelServer

from herdbeat.mcp.tool_specs import AGENT_TOOLS

pytestmark = pytest.mark.timeout(300)

AGENT_TOOL_NAMES = {str(each.name) for each in AGENT_TOOLS}
WAKE_AFTER = timedelta(seconds=25)
"""Longer than a run of a CLI on a busy machine, so that the wake is not due before the run has ended."""
PACE = timedelta(seconds=5)


@pytest.fixture
def fleet(home: AgentHome) -> AgentFleet:
    return AgentFleet(home)


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CLAUDE, CODEX)])
def test_an_agent_wakes_itself_reports_and_gets_its_note_back(
    cli: AgentCli, fleet: AgentFleet, model: ModelServer
) -> None:
    report = {"summary": "Three are open.", "metrics": {"open": 3}, "needs_you": "which one first?"}
    fleet.write(
        self_scheduling_agent(
            cli,
            mcp("wake_me", after="25s", note="marigold", reason="the build runs"),
            mcp("report_result", **report),
        )
    )

    with fleet.up() as feed:
        assert feed.until("run_finished")["status"] == "succeeded"
        assert fleet.read("SELECT count(*) FROM hint") == [(1,)]
        assert feed.until("run_finished")["status"] == "succeeded"

    first, second = fleet.runs("scout")[:2]
    assert second["source"] == "ai-oneshot"
    assert (
        parse(first["started_at"]) + WAKE_AFTER <= parse(second["due_at"]) <= parse(first["finished_at"]) + WAKE_AFTER
    )
    assert (first["summary"], first["response"], first["needs_you"]) == (
        "Three are open.",
        {"open": 3},
        ["which one first?"],
    )
    told = [each.prompts for each in model.requests if each.has_prompt("marigold")]
    assert any("Your own note, from when you asked to be woken now: marigold" in "".join(each) for each in told)
    assert set(offered_tools(model)) >= AGENT_TOOL_NAMES
    assert "hbt_run_" not in fleet.call("logs", "scout").stdout


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CLAUDE, CODEX)])
def test_an_agent_sets_its_own_pace_and_the_next_beat_follows_it(cli: AgentCli, fleet: AgentFleet) -> None:
    fleet.write(self_scheduling_agent(cli, mcp("set_pace", **{"every": "5s", "for": "1h", "reason": "an incident"})))

    with fleet.up() as feed:
        assert feed.until("run_finished")["status"] == "succeeded"
        assert fleet.read("SELECT count(*) FROM hint") == [(1,)]
        feed.until("run_started")

    first, second = fleet.runs("scout")[:2]
    assert second["source"] == "ai-interval"
    assert parse(second["due_at"]) - parse(first["finished_at"]) == PACE
    assert fleet.read("SELECT origin, reason FROM hint WHERE ended_at IS NULL") == [("agent:scout", "an incident")]


def self_scheduling_agent(cli: AgentCli, *directives: str) -> dict[str, Any]:
    prompt = "\n".join((*directives, "model: say Done."))
    return agent(
        cli, prompt, name="scout", schedule={"every": "6h", "min_interval": "1s", "jitter": 0, "overlap": "skip"}
    )


def mcp(tool: str, **arguments: object) -> str:
    return f"model: mcp {tool} {json.dumps(arguments)}"


def offered_tools(model: ModelServer) -> Iterator[str]:
    """Return the tools of our server that a CLI has told its model of, without the name of the server."""
    for request in model.requests:
        api = find_api(request.path)
        assert api is not None
        for tool in api.read(request.body).tools:
            if tool.full_name.startswith("mcp__herdbeat__"):
                yield tool.full_name.removeprefix("mcp__herdbeat__")


def parse(text: str) -> datetime:
    return datetime.fromisoformat(text)
