"""A node that is killed leaves no agent behind, and no file of its run."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from tests.support.agent_jobs import StartLog
from tests.support.runner_jobs import ExitingProcess
from tests.support.running_fleet import PROCESS_TIMEOUT_S, RunningFleet

FLEET = """\
version: 1
agents:
  - name: scout
    runtime: fake
    every: 1h
    prompt: "fake:hang fake:children"
    mcp_servers: { files: { command: mcp-files, env: { TOKEN: token-of-a-server } } }
"""


async def test_a_killed_node_leaves_neither_its_agent_nor_the_files_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, fleet = StartLog(tmp_path / "starts.jsonl"), RunningFleet(tmp_path)
    monkeypatch.setenv("FAKE_AGENT_LOG", str(starts.path))
    fleet.write(FLEET)
    scratch = tmp_path / ".herdbeat" / "agents"

    with fleet.up() as feed:
        async with asyncio.timeout(PROCESS_TIMEOUT_S):
            while not starts.read():  # noqa: ASYNC110 -- another process writes it
                await asyncio.sleep(0.02)
        (started,) = starts.read()
        processes = [ExitingProcess(pid) for pid in (started["pid"], *started["children"])]
        modes = {path.stat().st_mode & 0o777 for path in (scratch, *scratch.rglob("*"))}
        os.kill(feed.process.pid, signal.SIGKILL)
        feed.process.wait(PROCESS_TIMEOUT_S)
        for process in processes:
            await process.wait_for_exit()

    with fleet.up():
        left = scratch.exists()
        runs = fleet.call("runs", "--json").stdout
    assert modes == {0o700, 0o600}
    assert not left
    assert '"status": "interrupted"' in runs


async def test_a_run_that_ended_with_its_node_is_charged_what_its_output_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cost nothing: a node that is killed again and again would never have reached its budget."""
    starts, fleet = StartLog(tmp_path / "starts.jsonl"), RunningFleet(tmp_path)
    monkeypatch.setenv("FAKE_AGENT_LOG", str(starts.path))
    fleet.write(FLEET.replace("fake:hang fake:children", "fake:linger fake:cost=0.25"))
    logs = tmp_path / ".herdbeat" / "logs"

    with fleet.up() as feed:
        async with asyncio.timeout(PROCESS_TIMEOUT_S):
            while not any('"result"' in path.read_text() for path in logs.glob("*/*.raw")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        os.kill(feed.process.pid, signal.SIGKILL)
        feed.process.wait(PROCESS_TIMEOUT_S)

    with fleet.up():
        runs = json.loads(fleet.call("runs", "--json").stdout)["items"]
        costs = json.loads(fleet.call("cost", "--json").stdout)
    lost = next(each for each in runs if each["id"] == "0001")
    assert lost["status"] == "interrupted"
    assert (lost["usage"]["usd"], lost["usage"]["spend_source"]) == (0.25, "reported")
    assert costs["total"]["usd"] >= 0.25
