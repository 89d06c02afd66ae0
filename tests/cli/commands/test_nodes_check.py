"""`herdbeat nodes --check`: does the node of this folder answer? For the health check of a container."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.support.running_fleet import FLEET_YAML, RunningFleet


@pytest.fixture
def fleet(tmp_path: Path) -> RunningFleet:
    return RunningFleet(tmp_path)


def test_a_node_that_answers_is_healthy_and_one_that_was_killed_is_not(fleet: RunningFleet) -> None:
    before = fleet.call("nodes", "--check")
    with fleet.up() as feed:
        during, answer = fleet.call("nodes", "--check"), fleet.call("nodes", "--check", "--json")
        feed.process.kill()
        feed.process.wait()
        after = fleet.call("nodes", "--check", "--json")

    assert (before.returncode, before.stdout) == (6, "")
    assert before.stderr == "No node runs in this folder. Start one with: herdbeat up\n"
    assert (during.returncode, during.stderr) == (0, f"The node of this folder answers (pid {feed.process.pid}).\n")
    assert json.loads(answer.stdout) == {"answers": True, "pid": feed.process.pid}
    assert (after.returncode, json.loads(after.stdout)) == (6, {"answers": False, "pid": None})


def test_a_node_that_hangs_is_not_healthy(fleet: RunningFleet) -> None:
    with fleet.up() as feed:
        os.kill(feed.process.pid, signal.SIGSTOP)

        answer = fleet.call("nodes", "--check")

        os.kill(feed.process.pid, signal.SIGCONT)

    assert (answer.returncode, answer.stderr) == (
        6,
        f"The node of this folder (pid {feed.process.pid}) does not answer.\n",
    )


def test_a_broken_file_does_not_make_a_healthy_node_sick(fleet: RunningFleet) -> None:
    with fleet.up():
        fleet.write(FLEET_YAML.replace("version: 1", "version: ["))

        answer = fleet.call("nodes", "--check")

    assert answer.returncode == 0
