"""The MCP server on standard input and output, with the official client, in both eras of the protocol."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.mcp_fleet import CREATING_FLEET, ERAS, McpFleet, connect, make_mcp_fleet

from herdbeat.mcp.tool_specs import AGENT_TOOLS, CREATE_TOOLS, READ_TOOLS, ToolSpec
from herdbeat.service.run_tokens import make_run_token

both_eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def fleet(tmp_path: Path) -> McpFleet:
    return make_mcp_fleet(tmp_path)


@both_eras
async def test_an_agent_asks_who_it_is_and_changes_only_itself(fleet: McpFleet, era: str) -> None:
    async with connect(fleet.server(), era) as agent:
        me = await agent.call("whoami")
        first = await agent.call("wake_me", after="20m", note="check the deploy", reason="building")
        second = await agent.call("wake_me", after="20m", note="check the deploy", reason="building")
        pace, same_pace = [await agent.call("set_pace", every="5m", reason="incident") for _ in range(2)]
        told, same_told = [await agent.call("report_result", summary="3 issues", metrics={"open": 3}) for _ in range(2)]
        later = await agent.call("whoami")
        cancelled, nothing = [await agent.call("cancel_wake", reason="done") for _ in range(2)]

    assert (me["agent"], me["schedule"], me["limits"]["earliest_wake"]) == ("triage", "triage/check", "2m")
    assert [each["changed"] for each in (first, second, pace, same_pace, told, same_told, cancelled, nothing)] == (
        [True, False] * 4
    )
    assert first["id"] == second["id"]
    assert [wake["note"] for wake in later["wakes"]] == ["check the deploy"]
    assert (later["pace"]["every"], later["limits"]["wakes_left_today"], later["reported"]) == ("5m", 47, True)
    assert [hint.every for hint in fleet.hints()] == [timedelta(minutes=5)]
    assert fleet.hints("victim/work") == []


@both_eras
async def test_an_agent_whose_file_allows_it_creates_and_deletes_its_own_schedules(tmp_path: Path, era: str) -> None:
    fleet = make_mcp_fleet(tmp_path, CREATING_FLEET)
    wanted = {"name": "watch", "every": "10m", "expires": "1d", "prompt": "Check it.", "reason": "release day"}

    async with connect(fleet.server(), era) as agent:
        names = await agent.names()
        first, again = [await agent.call("create_schedule", **wanted) for _ in range(2)]
        me = await agent.call("whoami")
        foreign = await agent.refused("delete_schedule", name="check", reason="x")
        too_fast = await agent.refused("create_schedule", **{**wanted, "every": "1m"})
        deleted, nothing = [await agent.call("delete_schedule", name="watch", reason="done") for _ in range(2)]

    assert names == {each.name for each in (*AGENT_TOOLS, *CREATE_TOOLS)}
    assert [each["changed"] for each in (first, again, deleted, nothing)] == [True, False, True, False]
    assert (first["schedule"], first["until"]) == (again["schedule"], again["until"])
    assert [each["name"] for each in me["created_schedules"]] == ["watch"]
    assert (foreign["code"], too_fast["code"], too_fast["accepted"]) == (
        "not_yours",
        "below_min_interval",
        {"every": "2m"},
    )


@both_eras
async def test_both_sets_are_listed_with_schemas_and_hints(fleet: McpFleet, era: str) -> None:
    async with connect(fleet.server(), era) as agent:
        mine, tools = await agent.names(), (await agent.client.list_tools()).tools
    async with connect(fleet.command("--read-only"), era) as program:
        theirs = await program.names()

    assert mine == {each.name for each in AGENT_TOOLS}
    assert theirs == {each.name for each in READ_TOOLS}
    for tool in tools:
        assert tool.title
        assert tool.output_schema == {"type": "object"}
        assert tool.annotations is not None
        assert tool.annotations.idempotent_hint
        assert tool.annotations.read_only_hint is (tool.name not in CHANGING)


CHANGING = {"wake_me", "set_pace", "cancel_wake", "report_result"}


@both_eras
async def test_a_program_looks_at_the_fleet_and_changes_nothing(fleet: McpFleet, era: str) -> None:
    async with connect(fleet.command("--read-only"), era) as program:
        schedules = await program.call("list_schedules")
        runs = await program.call("list_runs", schedule="triage/check")
        run = await program.call("get_run", id=runs["runs"][0]["id"])
        status = await program.call("get_status")
        reason = await program.call("explain_schedule", schedule="victim/work")
        refused = await program.refused("wake_me", after="20m", reason="because")

    assert [each["schedule"] for each in schedules["schedules"]] == ["triage/check", "victim/work", "victim/hook"]
    assert (run["status"], run["schedule"]) == ("running", "triage/check")
    assert (status["schedules"], status["scheduler"]["running"]) == (3, False)
    assert reason["text"]
    assert refused["code"] == "unknown_tool"


@both_eras
async def test_an_agent_by_its_name_asks_without_a_run(fleet: McpFleet, era: str) -> None:
    async with connect(fleet.command("--as", "triage"), era) as agent:
        wake = await agent.call("wake_me", after="20m", reason="later")
        refused = await agent.refused("report_result", summary="done")

    assert wake["changed"]
    assert refused["code"] == "no_run"


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("wake_me", {"after": "5s", "reason": "x"}, "too_soon"),
        ("wake_me", {"after": "1ns", "reason": "x"}, "bad_duration"),
        ("wake_me", {"after": "-5m", "reason": "x"}, "bad_duration"),
        ("wake_me", {"after": "NaN", "reason": "x"}, "bad_duration"),
        ("wake_me", {"after": "36500d", "reason": "x"}, "too_late"),
        ("wake_me", {"at": "tomorrow", "reason": "x"}, "bad_time"),
        ("wake_me", {"after": 20, "reason": "x"}, "bad_argument"),
        ("wake_me", {"after": "20m"}, "missing_argument"),
        ("wake_me", {"after": "20m", "reason": "x", "schedule": "victim/work"}, "unknown_argument"),
        ("set_pace", {"every": "1m", "reason": "x"}, "below_min_interval"),
        ("set_pace", {"every": "5m", "for": "48h", "reason": "x"}, "too_long"),
        ("report_result", {"summary": "x", "metrics": {"a": [1]}}, "bad_metric"),
        ("report_result", {"summary": "x", "metrics": {str(n): n for n in range(51)}}, "too_many_metrics"),
        ("list_runs", {"schedule": "victim/work"}, "unknown_argument"),
        ("list_runs", {"status": "odd"}, "bad_status"),
        ("get_run", {"id": "0001"}, "unknown_tool"),
        ("list_schedules", {}, "unknown_tool"),
        ("pause", {}, "unknown_tool"),
        ("create_schedule", {"name": "x", "every": "1h", "prompt": "x", "reason": "x"}, "unknown_tool"),
        ("delete_schedule", {"name": "check", "reason": "x"}, "unknown_tool"),
    ],
)
async def test_a_call_that_cannot_be_done_says_what_can(
    fleet: McpFleet, tool: str, arguments: dict[str, object], code: str
) -> None:
    async with connect(fleet.in_process(), ERAS[1]) as agent:
        problem = await agent.refused(tool, **arguments)

    assert problem["code"] == code
    assert problem["detail"]
    assert problem.get("hint") or problem.get("accepted")
    assert fleet.hints() == []


@both_eras
async def test_the_token_of_a_run_is_dead_when_the_run_has_ended(fleet: McpFleet, era: str) -> None:
    async with connect(fleet.server(), era) as agent:
        await agent.call("whoami")
        fleet.end_run()
        refused = await agent.refused("wake_me", after="20m", reason="too late")

    assert refused["code"] == "forbidden"
    assert fleet.hints() == []


@pytest.mark.parametrize("kind", ["ended", "forged", "other run", "nonsense"])
def test_a_server_with_a_wrong_token_does_not_start(fleet: McpFleet, kind: str) -> None:
    token = {
        "ended": fleet.token,
        "forged": make_run_token("guessed", fleet.run_id),
        "other run": fleet.token.replace(f"run_{fleet.run_id}_", f"run_{fleet.run_id + 1}_"),
        "nonsense": "hbt_run_1_x",
    }[kind]
    if kind == "ended":
        fleet.end_run()
    server = fleet.server(HERDBEAT_RUN_TOKEN=token)

    done = subprocess.run(
        [server.command, *server.args],
        env=server.env,
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode != 0
    assert "not active" in done.stderr
    assert token not in done.stderr


def estimate_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Return how many tokens a model reads for these tools, rather too many: three characters of JSON are one token.

    Tokenizers of today need about 3.5 characters per token for such JSON. Nothing is left out, although clients show
    a model neither annotations nor output schemas.
    """
    return -(-len(json.dumps([each.to_json() for each in tools], separators=(",", ":"))) // 3)


def test_what_an_agent_reads_of_the_tools_is_short() -> None:
    """Three characters of JSON count as a token, which is more than today's tokenizers need."""
    assert estimate_tokens(AGENT_TOOLS) <= 1_500
    for tool in (*AGENT_TOOLS, *CREATE_TOOLS, *READ_TOOLS):
        assert len(tool.description.split()) <= 60, tool.name


def test_the_protocol_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, herdbeat.cli.main, herdbeat.bootstrap.fleet; print([m for m in sys.modules if m == 'mcp'])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "[]\n"
