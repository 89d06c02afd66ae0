"""Agents that crash, flood, hang, ignore signals or leave processes behind: they delay nobody and leave nothing.

Real processes under `herdbeat up`. What is asked is outside of the ledger: the agents' own log of their starts and
children, the process table, and the file in which a healthy neighbour writes.
"""

import json
from pathlib import Path

import pytest
from tests.support.agent_jobs import StartLog
from tests.support.running_fleet import EventFeed, RunningFleet

from herdbeat.platform import read_process

SICK = {
    "crashes": ("fake:crash", "failed"),
    "floods": ("fake:flood=200m", "succeeded"),
    "deaf": ("fake:children fake:ignore-term", "timed_out"),
    "lingers": ("fake:children fake:linger", "succeeded"),  # its result has come: only its process did not end
    "litters": ("fake:children", "succeeded"),
}
FLEET = """\
version: 1
commands:
  - { name: healthy, command: [sh, -c, "echo x >> beats"], every: 1s }
agents:
"""
AGENT = """\
  - name: {name}
    runtime: fake
    max_turns: 9
    timeout: {timeout}
    schedules: {{ once: {{ type: webhook, prompt: "{prompt}" }} }}
"""


def is_running(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.is_running


def wait_for_all(feed: EventFeed) -> dict[str, str]:
    """Return how each of the sick agents ended, and wait for one more beat of the healthy neighbour."""
    ended: dict[str, str] = {}
    while len(ended) < len(SICK):
        event = feed.until("run_finished")
        name = str(event["schedule"]).partition("/")[0]
        if name in SICK:
            ended[name] = str(event["status"])
    feed.until("run_finished", schedule="healthy")
    return ended


def test_sick_agents_delay_nobody_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    starts, fleet = StartLog(tmp_path / "starts.jsonl"), RunningFleet(tmp_path)
    monkeypatch.setenv("FAKE_AGENT_LOG", str(starts.path))
    monkeypatch.setenv("TMPDIR", str(scratch))
    timeouts = {"deaf": "3s", "lingers": "15s"}  # on a busy machine the others take their time
    agents = "".join(
        AGENT.format(name=name, prompt=prompt, timeout=timeouts.get(name, "100s")) for name, (prompt, _) in SICK.items()
    )
    fleet.write(FLEET + agents)

    with fleet.up("--no-server") as feed:
        before = len((tmp_path / "beats").read_text().splitlines()) if (tmp_path / "beats").exists() else 0
        for name in SICK:
            fleet.call("run", f"{name}/once")
        ended = wait_for_all(feed)
        after = len((tmp_path / "beats").read_text().splitlines())
        beats = json.loads(fleet.call("beats", "healthy", "--json", "-n", "100").stdout)["items"]
        survivors = [pid for each in starts.read() for pid in (each["pid"], *each["children"]) if is_running(pid)]

    assert ended == {name: status for name, (_, status) in SICK.items()}
    assert survivors == []
    assert after > before
    assert {each["outcome"] for each in beats} <= {"ran", "pending", "running"}, "no beat of the neighbour was lost"
    assert list(scratch.iterdir()) == []
    logs = [path.stat().st_size for path in (tmp_path / ".herdbeat").rglob("*") if path.suffix in (".log", ".raw")]
    assert sum(logs) < 50 << 20, "what an agent prints is cut"
