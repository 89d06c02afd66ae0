"""Fleets of real agent CLIs through `herdbeat up`: what the model server, the file system and the ledger say."""

import os
import signal
from pathlib import Path

import pytest
from tests.support.fault_fleet import wait_until
from tests.system.agent_clis import CLAUDE, CODEX, GEMINI, KEY, MADE_FILE, QWEN, AgentCli, AgentHome, needs_cli
from tests.system.agent_fleet import AgentFleet, agent
from tests.system.model_server import BAD_KEY, ModelServer

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def fleet(home: AgentHome) -> AgentFleet:
    return AgentFleet(home)


def make_folder(fleet: AgentFleet, name: str) -> Path:
    folder = fleet.folder / name
    folder.mkdir()
    return folder


def test_agents_of_each_cli_answer_act_and_ask_for_you(cli: AgentCli, fleet: AgentFleet, model: ModelServer) -> None:
    allowed, denied = make_folder(fleet, "allowed"), make_folder(fleet, "denied")
    work = f"model: {cli.shell_call}\nmodel: say Done."
    fleet.write(
        agent(cli, "Look around.\nmodel: say Nothing new.\nmodel: tokens 1000 200", name="reader"),
        agent(cli, work, name="maker", working_directory="allowed", permission_mode="bypassPermissions"),
        agent(cli, work, name="asker", working_directory="denied", permission_mode="default"),
        max_concurrent=1,  # OpenCode finds its database locked when several start for the first time
    )

    with fleet.up() as feed:
        for _ in range(3):
            assert feed.until("run_finished")["status"] == "succeeded"

    (reader,), (maker,), (asker,) = fleet.runs("reader"), fleet.runs("maker"), fleet.runs("asker")
    usage = reader["usage"]
    assert (reader["answer"], reader["needs_you"]) == ("Nothing new.", [])
    assert usage["input_tokens"] > 0
    assert (usage["input_tokens"] % 1000, usage["output_tokens"] % 200) == (0, 0)
    assert (usage["spend_source"], "usd" in usage) == (("reported", True) if cli.reports_usd else ("unknown", False))
    assert model.count("Look around.") == usage["input_tokens"] // 1000 + (cli.name == "opencode")
    assert (allowed / MADE_FILE).exists()
    assert [step["ok"] for step in maker["steps"]] == [True]
    assert not (denied / MADE_FILE).exists()
    assert [MADE_FILE in need for need in asker["needs_you"]] == ([True] if cli.denies_tools else [])
    assert fleet.agent_processes() == []


def test_a_refused_key_fails_the_run_and_says_so(cli: AgentCli, home: AgentHome, model: ModelServer) -> None:
    stranger = AgentHome(home.folder, home.url, BAD_KEY)
    stranger.write_settings()
    fleet = AgentFleet(stranger)
    fleet.write(agent(cli, "model: say hello"))

    with fleet.up() as feed:
        finished = feed.until("run_finished")

    assert (finished["status"], finished["error_code"]) == ("failed", "auth_failed")
    assert {each.key for each in model.requests} == {BAD_KEY}
    assert BAD_KEY not in fleet.call("logs", f"{cli.name}/work").stdout


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CLAUDE, GEMINI)])
def test_an_account_at_its_limit_asks_nothing_until_it_is_released(
    cli: AgentCli, fleet: AgentFleet, model: ModelServer
) -> None:
    """Qwen Code and OpenCode repeat such a request for minutes and say nothing of it."""
    model.limit_key(KEY, resets_in_s=3600)
    fleet.write(
        agent(cli, "First.\nmodel: say One.", name="first", account="team"),
        agent(cli, "Second.\nmodel: say Two.", name="second", account="team", schedule={"type": "manual"}),
    )
    with fleet.up() as feed:
        feed.until("run_finished", error_code="rate_limited")
        refused, queued = fleet.call("run", "second"), fleet.call("run", "second", "--queue")
        status = fleet.call("status").stdout
        model.lift_limit(KEY)
        asked_while_held = len(model.requests)

        fleet.call("resume", "--account", "team")
        for _ in range(2):
            feed.until("run_finished", status="succeeded")

    assert (refused.returncode != 0, queued.returncode, "team" in status) == (True, 0, True)
    assert asked_while_held == 1
    assert (model.count("First."), model.count("Second.")) == (2, 1)
    assert fleet.runs("first")[-1]["answer"] == "One."
    assert fleet.runs("second")[-1]["answer"] == "Two."
    assert fleet.read("SELECT account, released_by <> '' FROM account_hold") == [("team", 1)]


@pytest.mark.needs("codex")
def test_a_stated_reset_opens_the_account_by_itself(fleet: AgentFleet, model: ModelServer) -> None:
    model.limit_key(KEY, resets_in_s=1, is_usage_limit=True)
    fleet.write(agent(CODEX, "Look around.\nmodel: say Nothing new."))
    with fleet.up() as feed:
        feed.until("run_finished", error_code="rate_limited")
        model.lift_limit(KEY)

        # Codex names the minute of the reset: the account is held for one or two.
        feed.until("run_finished", status="succeeded")

    assert [each.status for each in model.requests] == [429, 200]
    assert fleet.read("SELECT stated, released_by FROM account_hold") == [(1, "")]
    assert fleet.read("SELECT outcome FROM beat") == [("ran",)]


@pytest.mark.parametrize("cli", [needs_cli(each) for each in (CLAUDE, QWEN)])
def test_a_run_ends_at_its_turns(cli: AgentCli, fleet: AgentFleet, model: ModelServer) -> None:
    """The others have no option for it, and `validate` says so."""
    listing = {
        "claude": 'Bash {"command": "ls", "description": "List"}',
        "qwen": f'list_directory {{"path": "{fleet.folder}"}}',
    }
    fleet.write(agent(cli, f"model: always call {listing[cli.name]}", max_turns=2))

    with fleet.up() as feed:
        finished = feed.until("run_finished")

    assert (finished["status"], finished["error_code"]) == ("failed", "max_turns")
    assert len(model.requests) == 2


def test_a_resumed_session_is_charged_once(cli: AgentCli, fleet: AgentFleet, model: ModelServer) -> None:
    prompt = "Remember the marigold.\nmodel: say Noted.\nmodel: tokens 1000 200"
    fleet.write(agent(cli, prompt, session="resume"))
    with fleet.up() as feed:
        feed.until("run_finished", status="succeeded")

        fleet.call("run", cli.name)
        feed.until("run_finished", status="succeeded")

    first, second = fleet.runs(cli.name)
    asked = [each for each in model.requests if each.has_prompt("marigold")]
    assert sum("".join(asked[-1].prompts).count(text) for text in ("marigold",)) == 2
    paid = len(model.requests) - (cli.name == "opencode")  # which does not count the one for the title of the session
    assert first["usage"]["input_tokens"] + second["usage"]["input_tokens"] == 1000 * paid
    assert first["usage"]["output_tokens"] + second["usage"]["output_tokens"] == 200 * paid


def test_a_run_out_of_time_leaves_no_process(cli: AgentCli, fleet: AgentFleet, model: ModelServer) -> None:
    fleet.write(agent(cli, "model: hang", schedule={"timeout": f"{cli.start_s}s"}))
    with fleet.up() as feed:
        model.wait_until_asked("model: hang")

        finished = feed.until("run_finished")
        wait_until(lambda: fleet.agent_processes() == [], lambda: f"still there: {fleet.agent_processes()}")

    assert finished["status"] == "timed_out"
    model.wait_for(lambda log: not any(each.is_waiting for each in log))


def test_a_cancelled_run_leaves_no_process(cli: AgentCli, fleet: AgentFleet, model: ModelServer) -> None:
    fleet.write(agent(cli, "model: hang"))
    with fleet.up() as feed:
        model.wait_until_asked("model: hang")

        fleet.call("cancel", cli.name)
        finished = feed.until("run_finished")
        wait_until(lambda: fleet.agent_processes() == [], lambda: f"still there: {fleet.agent_processes()}")

    assert finished["status"] == "cancelled"
    model.wait_for(lambda log: not any(each.is_waiting for each in log))


def test_a_killed_node_leaves_no_agent_and_its_beat_is_accounted_for(
    cli: AgentCli, fleet: AgentFleet, model: ModelServer
) -> None:
    fleet.write(agent(cli, "model: hang"))
    with fleet.up() as feed:
        model.wait_until_asked("model: hang")

        os.kill(feed.process.pid, signal.SIGKILL)
        feed.process.wait()
        wait_until(lambda: fleet.agent_processes() == [], lambda: f"still there: {fleet.agent_processes()}")
        model.wait_for(lambda log: not any(each.is_waiting for each in log))
    asked = len(model.requests)
    with fleet.up():
        pass

    assert [run["status"] for run in fleet.runs(cli.name)] == ["interrupted"]
    assert fleet.read("SELECT outcome FROM beat") == [("ran",)]
    assert len(model.requests) == asked


def test_agent_test_shows_what_came_back(cli: AgentCli, fleet: AgentFleet, model: ModelServer) -> None:
    fleet.write(agent(cli, "model: say unused"))

    tried = fleet.ask("agent", "test", cli.name, "--prompt", "Are you there?\nmodel: say Here I am.")

    assert (tried["ok"], tried["answer"]) == (True, "Here I am.")
    assert model.count("Are you there?") > 0
    assert not (fleet.folder / ".herdbeat" / "herdbeat.db").exists()


@pytest.mark.needs("claude")
def test_agent_test_with_a_refused_key_says_what_to_do(home: AgentHome) -> None:
    fleet = AgentFleet(AgentHome(home.folder, home.url, BAD_KEY))
    fleet.write(agent(CLAUDE, "model: say unused"))

    tried = fleet.call("agent", "test", "claude")

    assert tried.returncode == 5
    assert "auth_failed" in tried.stdout
    assert "fix" in tried.stdout
    assert BAD_KEY not in tried.stdout + tried.stderr
