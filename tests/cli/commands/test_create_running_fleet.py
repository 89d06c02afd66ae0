"""`create` and `state --import` on a running fleet."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.running_fleet import FLEET_YAML, RunningFleet


@pytest.fixture
def fleet(tmp_path: Path) -> RunningFleet:
    return RunningFleet(tmp_path)


def test_a_created_schedule_runs_at_once_survives_a_restart_and_can_be_deleted(fleet: RunningFleet) -> None:
    with fleet.up() as feed:
        made = fleet.call("create", "tidy", "--command", "echo 'a b'", "--every", "1h")
        ran = feed.until("run_finished", schedule="tidy")
        slower = fleet.call("update", "tidy", "--every", "2h")
    with fleet.up():
        fleet.call("apply")
        labels = fleet.labels()
        gone = fleet.call("delete", "tidy")
        left = fleet.labels()

    assert (made.returncode, slower.returncode, gone.returncode) == (0, 0, 0), (made, slower, gone)
    assert ran["status"] == "succeeded"
    assert (labels, left) == (["quick", "tidy"], ["quick"])


def test_a_running_fleet_imports_a_state_file(fleet: RunningFleet) -> None:
    (fleet.folder / "state.yaml").write_text(
        "agents: { late: { schedules: { default: { status: disabled } } } }\n", encoding="utf-8"
    )
    fleet.write(FLEET_YAML + '  - { name: late, command: [echo], cron: "0 1 1 1 *" }\n')

    with fleet.up():
        done = fleet.call("state", "--import", "state.yaml")
        state = json.loads(fleet.call("state", "--json").stdout)

    assert "Imported 1 schedule" in done.stdout
    assert state["agents"]["late"]["schedules"]["default"]["status"] == "disabled"


def test_the_first_line_of_up_counted_no_schedules_that_were_created(fleet: RunningFleet) -> None:
    fleet.call("create", "disk", "--command", "df", "--every", "1h")

    argv = [sys.executable, "-m", "herdbeat", "up", "--no-server"]
    with subprocess.Popen(argv, cwd=fleet.folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        banner = process.stdout.readline()
        process.kill()

    assert "1 target, 1 schedule, and 1 schedule without a file" in banner
