"""The spread of agents, seen from outside: a real node, real programs that write down when they were started."""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.running_fleet import RunningFleet

AGENTS = 40
HEAD = """\
version: 1
timezone: UTC
catchup_rate: {rate}
agents:
"""
AGENT = """\
  - name: agent-{number:02}
    runtime: command
    command: [sh, -c, "cat > /dev/null; date +%s.%N >> starts"]
    schedules: {{ work: {{ every: 1h, prompt: Work. }} }}
"""


def write_fleet(folder: Path, rate: int) -> RunningFleet:
    fleet = RunningFleet(folder)
    fleet.write(HEAD.format(rate=rate) + "".join(AGENT.format(number=number) for number in range(AGENTS)))
    return fleet


def answer(fleet: RunningFleet, *words: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(fleet.call(*words, "--json").stdout)
    return result


def next_runs(fleet: RunningFleet) -> dict[str, str]:
    return {each["schedule"]: each["next_run_at"] for each in answer(fleet, "list")["items"]}


def test_forty_agents_of_a_new_fleet_do_not_start_in_one_second(tmp_path: Path) -> None:
    fleet, began = write_fleet(tmp_path, rate=5), time.time()

    with fleet.up() as feed:
        for _ in range(AGENTS):
            feed.until("run_finished")

    starts = sorted(map(float, (tmp_path / "starts").read_text(encoding="utf-8").split()))
    assert len(starts) == AGENTS  # each once
    assert all(start >= began + place / 5 for place, start in enumerate(starts))


def test_an_agent_that_waits_for_its_place_says_so_on_every_screen(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, rate=1)

    with fleet.up() as feed:
        feed.until("run_started")
        waiting = [each for each in answer(fleet, "list")["items"] if each["state"] == "new"]
        label, listed = max((each["schedule"], each["next_run_at"]) for each in waiting)
        shown, previewed = answer(fleet, "explain", label), answer(fleet, "next", label, "-n", "1")["items"][0]
        screen = fleet.call("explain", label).stdout

    assert shown["next_run_at"] == previewed["next_run_at"] == listed
    assert (shown["source"], shown["state"]) == ("first-run", "new")
    reason = "spread: agents that are due together start at most 1 a second (catchup_rate)"
    assert shown["steps"][-1]["text"] == reason
    assert "spread: agents" in screen
    assert any(note.startswith("spread: ") for note in previewed["notes"])


def test_the_spread_of_the_next_run_is_shown_and_survives_a_kill(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, rate=1000)
    with fleet.up() as feed:
        for _ in range(AGENTS):
            feed.until("run_finished")
    planned = next_runs(fleet)

    with fleet.up():
        restarted = next_runs(fleet)
        screen, plan = fleet.call("explain", "agent-07").stdout, answer(fleet, "next", "agent-07", "-n", "1")
        shown = fleet.call("show", "agent-07/work").stdout

    assert restarted == planned
    assert "spread adds " in screen
    item = plan["items"][0]
    moved = datetime.fromisoformat(item["next_run_at"]) - datetime.fromisoformat(item["due_at"])
    assert 0 < moved.total_seconds() < 10
    assert item["next_run_at"] == planned["agent-07/work"]
    assert "auto" in shown
