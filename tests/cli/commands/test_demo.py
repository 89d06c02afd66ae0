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


def test_the_hint_for_a_restart_works_in_the_folder_of_the_demo(tmp_path: Path) -> None:
    """Following it after the other lines started another demo, in a folder of its own and without a gap."""
    words = [sys.executable, "-m", "herdbeat", "up", "--demo", "--state-dir", "my demo"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None

        kill_hint = next(line for line in process.stdout if f"kill -9 {process.pid}" in line)
        again = next(process.stdout)
        process.kill()

    assert "restart it" in kill_hint
    assert again == "  herdbeat up --demo --state-dir .\n"


def test_the_lines_for_another_terminal_work_there_as_printed(tmp_path: Path) -> None:
    """They assumed the folder and the PATH of the first terminal: `herdbeat: command not found`."""
    script = Path(sys.executable).with_name("herdbeat")
    with subprocess.Popen([script, "up", "--demo", "--state-dir", "live"], cwd=tmp_path, stdout=subprocess.PIPE) as up:
        try:
            assert up.stdout is not None
            lines = iter(lambda: up.stdout.readline().decode(), "")  # type: ignore[union-attr]
            next(line for line in lines if line.startswith("Try these commands in another terminal"))
            source, folder, command = (next(lines).strip() for _ in range(3))
            clean = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            typed = f"{source} && {folder} && {command.split('  ')[0]}"
            other = subprocess.run(
                ["bash", "-c", typed], cwd="/", env=clean, capture_output=True, text=True, check=False
            )
        finally:
            up.kill()

    assert (other.returncode, other.stderr) == (0, "")
    assert other.stdout.startswith("demo   up ")
