"""The demo as a user runs it: in two terminals, killed, and started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.running_fleet import PROCESS_TIMEOUT_S, RunningFleet


@pytest.fixture
def fleet(tmp_path: Path) -> RunningFleet:
    return RunningFleet(tmp_path)


def test_the_demo_starts_at_once_accounts_for_a_kill_and_runs_only_once(fleet: RunningFleet, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with fleet.up("--demo", "--state-dir", str(folder)) as feed:
        endpoint = feed.until("run_finished", schedule="queue-depth")
        agent = feed.until("run_finished", schedule="scribe/notes")
        second = fleet.call("up", "--demo", "--state-dir", str(folder))
        os.kill(feed.process.pid, signal.SIGKILL)
        feed.process.wait(PROCESS_TIMEOUT_S)
    with fleet.up("--demo", "--state-dir", str(folder)) as feed:
        feed.until("run_finished", schedule="heartbeat")

    assert (agent["status"], endpoint["status"]) == ("succeeded", "succeeded")
    assert (second.returncode, "The demo is already running" in second.stderr) == (1, True)


def test_the_hint_for_a_restart_contains_the_given_state_directory(tmp_path: Path) -> None:
    """The folder used to be missing: following the hint started another demo, without a gap."""
    words = [sys.executable, "-m", "herdbeat", "up", "--demo", "--state-dir", "my demo"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None

        kill_hint = next(line for line in process.stdout if f"kill -9 {process.pid}" in line)
        again = next(process.stdout)
        process.kill()

    assert "start it again" in kill_hint
    assert again == "  herdbeat up --demo --state-dir 'my demo'\n"
