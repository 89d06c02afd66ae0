"""`cost`, `sessions`, `ack`, `resume --account` and what `status`, `show` and `explain` say of agents."""

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.support.agent_reports import count_usage, reach_limit, succeed
from tests.support.fleet_history import create_fleet_history

from herdbeat.domain.isolation import IsolationSpec, IsolationType
from herdbeat.domain.target import AgentSpec
from herdbeat.runners.settings import identify_store
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd

FLEET = """\
version: 1
fleet: { name: my-fleet }
callables:
  - { name: unborn, call: "fleet:unborn", every: 1h }
"""


@pytest.fixture
async def fleet(cli: CommandLine) -> CommandLine:
    """An agent that was refused, one that needs a person, and one that only costs; nothing runs."""
    await create_fleet_history(cli, FLEET, _schedules)
    return cli


def _schedules(herd: SimulatedHerd) -> None:
    agent = AgentSpec(runtime="claude", working_directory="/srv/app", account="team")
    told = {
        "limited": reach_limit(herd.now + timedelta(days=2), session_id=""),
        "asks": succeed(needs_you=("Bash: git push",), account="mine", session_id="s-7", runtime="claude"),
        "tokens": succeed(counted=count_usage(1_000, 50), session_id="", model="local", answer="All\ngreen."),
    }
    for name, outcome in told.items():
        herd.schedule(name, every="1d", runner=ScriptedRunner(outcomes=[outcome]), agent=agent)


def answer(cli: CommandLine, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli.run(*words, "--json").out)
    return found


def test_cost_says_where_its_figures_come_from_and_which_are_unknown(fleet: CommandLine) -> None:
    report = answer(fleet, "cost")

    by_schedule = {each["schedule"]: each for each in report["items"]}
    assert (by_schedule["asks"]["usd"], by_schedule["asks"]["sources"]) == (0.4, ["reported"])
    assert (by_schedule["tokens"]["usd"], by_schedule["tokens"]["tokens"]) == (None, 1_050)
    assert by_schedule["tokens"]["unknown_runs"] == 1
    assert "1 run without a price" in fleet.run("cost").err


def test_cost_is_summed_up_per_target_and_per_day(fleet: CommandLine) -> None:
    by_day = answer(fleet, "cost", "--per", "day")["items"]
    by_target = answer(fleet, "cost", "asks", "--per", "target")["items"]

    assert [each["runs"] for each in by_day] == [2]
    assert [(each["target"], each["usd"]) for each in by_target] == [("asks", 0.4)]


def test_cost_of_an_unknown_target_is_an_error_that_guesses(fleet: CommandLine) -> None:
    refused = fleet.run("cost", "askz")

    assert refused.status == 3
    assert "asks" in refused.err


def test_sessions_have_the_command_that_opens_them(fleet: CommandLine) -> None:
    (session,) = answer(fleet, "sessions")["items"]

    assert (session["schedule"], session["session_id"]) == ("asks", "s-7")
    assert session["open"] == "cd /srv/app && claude --resume=s-7"
    assert "claude --resume=s-7" in fleet.run("sessions", "--wide").out


async def test_the_session_of_an_isolated_agent_is_opened_in_its_own_home(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its home the CLI answers: No conversation found."""
    cli.environ["XDG_DATA_HOME"] = "/data"
    sandbox = IsolationSpec(type=IsolationType.BWRAP)
    agents = {
        "writer": AgentSpec(runtime="claude", working_directory=".", isolation=sandbox),
        "coder": AgentSpec(runtime="codex", working_directory=".", isolation=sandbox),
    }

    def schedule(herd: SimulatedHerd) -> None:
        for name, agent in agents.items():
            outcome = succeed(session_id=f"s-{name}", runtime=agent.runtime)
            herd.schedule(name, every="1d", runner=ScriptedRunner(outcomes=[outcome]), agent=agent)

    await create_fleet_history(cli, FLEET, schedule)
    host = answer(cli, "sessions")["items"][0]["host"]
    monkeypatch.setattr("platform.node", lambda: host)

    opened = {each["schedule"]: each["open"] for each in answer(cli, "sessions")["items"]}

    home = f"/data/herdbeat/{identify_store(cli.folder / '.herdbeat')}/homes"
    assert opened == {
        "writer": f"CLAUDE_CONFIG_DIR={home}/writer/.claude claude --resume=s-writer",
        "coder": f"CODEX_HOME={home}/coder/.codex codex resume s-coder",
    }


async def test_the_session_of_an_agent_with_another_program_was_opened_by_the_usual_one(cli: CommandLine) -> None:
    like = {"like": "claude", "program": "claude-beta"}
    agents = {
        "named": AgentSpec(runtime="codex", working_directory=".", program="/opt/codex-beta/codex"),
        "like": AgentSpec(runtime="beta", working_directory=".", preset=like),
        "moved": AgentSpec(runtime="codex", working_directory=".", program="/opt/codex-beta/codex"),
    }

    def schedule(herd: SimulatedHerd) -> None:
        for name, agent in agents.items():
            runtime = "claude" if name == "moved" else agent.runtime  # it was Claude when the session began
            outcome = succeed(session_id=f"s-{name}", runtime=runtime)
            herd.schedule(name, every="1d", runner=ScriptedRunner(outcomes=[outcome]), agent=agent)

    await create_fleet_history(cli, FLEET, schedule)

    opened = {each["schedule"]: each["open"] for each in answer(cli, "sessions")["items"]}

    assert opened == {
        "named": "/opt/codex-beta/codex resume s-named",
        "like": "claude-beta --resume=s-like",
        "moved": "claude --resume=s-moved",
    }


def test_runs_as_json_have_what_agents_told(fleet: CommandLine) -> None:
    runs = {each["schedule"]: each for each in answer(fleet, "runs")["items"]}

    assert runs["asks"]["needs_you"] == ["Bash: git push"]
    assert (runs["asks"]["quiet"], runs["asks"]["error_code"]) == (False, None)
    assert "session_id" in runs["asks"]
    assert (runs["asks"]["usage"]["usd"], runs["asks"]["usage"]["spend_source"]) == (0.4, "reported")
    assert runs["limited"]["error_code"] == "rate_limited"


def test_a_run_that_needs_a_person_is_listed_until_it_is_acknowledged(fleet: CommandLine) -> None:
    (mark,) = answer(fleet, "ack")["items"]
    before = fleet.run("status").out

    acked = fleet.run("ack", str(mark["run"]), "--reason", "pushed")

    assert mark["what"] == ["Bash: git push"]
    assert "NEEDS YOU 1" in before
    assert "1 run acknowledged" in acked.out
    assert answer(fleet, "ack")["items"] == []
    assert "NEEDS YOU" not in fleet.run("status").out
    assert fleet.run("ack", "--all").out.strip() == "Nothing needs you there."
    assert "pushed" in fleet.run("changes", "--wide").out


def test_a_held_account_is_in_status_and_explain_until_somebody_releases_it(fleet: CommandLine) -> None:
    (account,) = answer(fleet, "status")["accounts"]
    explained = fleet.run("explain", "limited").out

    released = fleet.run("resume", "--account", "team", "--reason", "bought more")

    assert (account["account"], account["stated"]) == ("team", True)
    assert f"usage limit reached by run {account['run']}" in explained
    assert "account team released" in released.out
    assert answer(fleet, "status")["accounts"] == []
    assert "bought more" in fleet.run("changes", "--wide").out


def test_list_and_explain_name_the_account_that_a_beat_waits_for(fleet: CommandLine) -> None:
    """They said only `late`, which looked like a fault of the scheduler."""
    (listed,) = [line for line in fleet.run("list").lines() if line.startswith("limited")]
    beats = [each for each in answer(fleet, "beats", "limited")["items"] if each["outcome"] == "pending"]
    by_label = {each["schedule"]: each for each in answer(fleet, "list")["items"]}

    assert "team opens in 2d" in listed
    assert "its account is held: team, usage limit reached" in fleet.run("explain", "limited").out
    assert [each["reason"] for each in beats] == ["rate_limited"]
    assert by_label["limited"]["account_hold"]["account"] == "team"
    assert by_label["asks"]["account_hold"] is None


async def test_explain_named_no_limit_for_a_beat_that_a_limit_of_another_model_had_refused(cli: CommandLine) -> None:
    """As of a subagent with that model."""

    def schedule(herd: SimulatedHerd) -> None:
        agent = AgentSpec(runtime="claude", working_directory=".", account="team", model="sonnet")
        refused = reach_limit(herd.now + timedelta(days=2), model="opus")
        for name, outcome in (("refused", refused), ("spared", succeed())):
            herd.schedule(name, every="1d", runner=ScriptedRunner(outcomes=[outcome]), agent=agent)

    await create_fleet_history(cli, FLEET, schedule)

    by_label = {each["schedule"]: each["account_hold"] for each in answer(cli, "list")["items"]}

    assert "its account is held: team (opus), usage limit reached by run" in cli.run("explain", "refused").out
    assert "its account is held" not in cli.run("explain", "spared").out
    assert (by_label["refused"]["model"], by_label["spared"]) == ("opus", None)


def test_an_account_that_is_not_held_cannot_be_released(fleet: CommandLine) -> None:
    unknown = fleet.run("resume", "--account", "tem")
    both = fleet.run("resume", "limited", "--account", "team")

    assert unknown.status == 3
    assert "Held accounts: team." in unknown.err
    assert both.status == 2


def test_show_has_the_answer_first_and_all_that_an_agent_told(fleet: CommandLine) -> None:
    runs = {each["schedule"]: each for each in answer(fleet, "runs")["items"]}

    shown = answer(fleet, "show", runs["tokens"]["id"])

    assert (shown["answer"], shown["model"], shown["needs_you"]) == ("All\ngreen.", "local", [])
    assert shown["usage"] == {
        "tokens": 1_050,
        "input_tokens": 1_000,
        "output_tokens": 50,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "spend_source": "unknown",
        "notional": False,
    }
    assert (runs["limited"]["error_code"], runs["limited"]["quiet"]) == ("rate_limited", False)
    assert runs["asks"]["needs_you"] == ["Bash: git push"]
    assert runs["asks"]["usage"]["usd"] == 0.4
    screen = fleet.run("show", runs["tokens"]["id"]).out
    assert "ANSWER\n  All\n  green." in screen
    assert "unknown" in screen


async def test_runs_folds_what_an_agent_had_nothing_to_report_about(cli: CommandLine) -> None:
    def schedule(herd: SimulatedHerd) -> None:
        outcomes = [succeed(quiet=True), succeed(quiet=True), succeed(), succeed(quiet=True), succeed(quiet=True)]
        agent = AgentSpec(runtime="claude", working_directory="/srv/app")
        herd.schedule("watch", every="1h", runner=ScriptedRunner(outcomes=outcomes), agent=agent)

    await create_fleet_history(cli, FLEET, schedule, timedelta(hours=4))

    shown, listed = cli.run("runs", "watch"), answer(cli, "runs", "watch")["items"]

    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == ["0005", "0003", "0002"]
    assert "2 more quiet runs" in shown.err
    assert [run["quiet"] for run in listed] == [True, True, False, True, True]


async def test_quiet_runs_were_all_listed_if_another_schedule_ran_between_them(cli: CommandLine) -> None:
    def schedule(herd: SimulatedHerd) -> None:
        agent = AgentSpec(runtime="claude", working_directory="/srv/app")
        for name, is_quiet in (("watch", True), ("write", False)):
            outcomes = [succeed(quiet=is_quiet) for _ in range(2)]
            herd.schedule(name, every="1h", runner=ScriptedRunner(outcomes=outcomes), agent=agent)

    await create_fleet_history(cli, FLEET, schedule, timedelta(hours=1))

    shown = cli.run("runs")

    assert sorted(line.split()[1] for line in shown.out.splitlines()[1:]) == ["watch", "write", "write"]
    assert "1 more quiet run," in shown.err
