"""A usage limit holds new agents of the same login, before their first run has told which login they use."""

import json
from pathlib import Path

import pytest
from tests.support.agent_jobs import StartLog
from tests.support.running_fleet import RunningFleet

FLEET = """\
version: 1
agents:
  - name: first
    runtime: fake
    budget: { runs_per_day: 9 }
    schedules: { one: { type: webhook, prompt: "fake:limit=2h" } }
"""
SECOND = """\
  - name: second
    runtime: fake
    budget: { runs_per_day: 9 }
    schedules: { two: { type: webhook, prompt: "Hello" } }
"""


def test_a_new_agent_ran_into_the_usage_limit_of_its_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts, fleet = StartLog(tmp_path / "starts.jsonl"), RunningFleet(tmp_path)
    monkeypatch.setenv("FAKE_AGENT_LOG", str(starts.path))
    fleet.write(FLEET)

    with fleet.up() as feed:
        fleet.call("run", "first/one")
        feed.until("account_held")
        fleet.write(FLEET + SECOND)
        fleet.call("apply")
        fleet.call("run", "second/two", "--queue")
        beats = json.loads(fleet.call("beats", "second/two", "--json").stdout)["items"]

    assert [(each["outcome"], each["reason"]) for each in beats] == [("pending", "rate_limited")]
    assert len(starts.read()) == 1


def test_an_agent_that_was_made_by_hand_ran_into_the_usage_limit_of_its_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, fleet = StartLog(tmp_path / "starts.jsonl"), RunningFleet(tmp_path)
    monkeypatch.setenv("FAKE_AGENT_LOG", str(starts.path))
    fleet.write(FLEET)
    fleet.call("create", "earlier", "--runtime", "fake")

    with fleet.up() as feed:
        fleet.call("run", "first/one")
        feed.until("account_held")
        fleet.call("create", "later", "--runtime", "fake")
        for name in ("earlier", "later"):
            fleet.call("create", f"{name}/yearly", "--cron", "0 0 1 1 *", "--prompt", "Hello")
            fleet.call("run", f"{name}/yearly", "--queue")
        beats = json.loads(fleet.call("beats", "--json").stdout)["items"]

    waiting = {each["schedule"] for each in beats if each["reason"] == "rate_limited"}
    assert waiting == {"first/one", "earlier/yearly", "later/yearly"}
    assert len(starts.read()) == 1
