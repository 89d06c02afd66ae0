"""Commands on a running fleet, as real processes: they act at once, and an offline writer never blocks it."""

import subprocess
from pathlib import Path

import pytest
from tests.cli.commands.test_up import PROCESS_TIMEOUT, UpFleet, read_until

from herdbeat.control_socket.client import send_request
from herdbeat.errors import UsageError
from herdbeat.service.commands.base import Forbidden
from herdbeat.store.state_lock import StateLock

FLEET = """\
version: 1
fleet: { name: my-fleet }
timezone: UTC
commands:
  - { name: hourly, command: [echo, hello], every: 1h }
  - { name: endless, command: [sleep, "600"], every: 1h }
  - { name: yearly, command: [echo, hello], cron: "0 0 1 1 *" }
  - { name: off, command: [echo, hello], every: 1h, enabled: false }
"""


@pytest.fixture
def fleet(tmp_path: Path) -> UpFleet:
    made = UpFleet(tmp_path)
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    return made


def read_run(process: subprocess.Popen[str], schedule: str) -> dict[str, object]:
    """Return the next run of it that starts."""
    while (found := read_until(process, "run_started"))["schedule"] != schedule:
        pass
    return found


def test_a_fast_hint_on_an_hourly_schedule_acts_at_once(fleet: UpFleet) -> None:
    with fleet.up() as process:
        read_run(process, "hourly")
        given = fleet.answer("hint", "hourly", "--every", "1s", "--reason", "watching")
        event = read_until(process, "schedules_changed")
        started = read_run(process, "hourly")
        explained = fleet.call("explain", "hourly").stdout

    assert (given["served"], given["changed"]) == (True, 1)
    assert (event["what"], event["schedules"], event["reason"]) == ("hint", ["hourly"], "watching")
    assert started["source"] == "ai-interval"
    assert "every 1s by human:" in explained


def test_pause_with_cancel_running_stops_runs_and_enable_reports_the_file(fleet: UpFleet) -> None:
    with fleet.up() as process:
        read_run(process, "endless")
        paused = fleet.call("pause", "endless", "--cancel-running", "--reason", "enough")
        while (ended := read_until(process, "run_finished"))["schedule"] != "endless":
            pass
        refused = fleet.call("enable", "off")
        everything = fleet.answer("pause", "--all", "--yes")

    assert "1 active run will be cancelled." in paused.stdout
    assert ended["status"] == "cancelled"
    assert "enough" in fleet.call("explain", "endless").stdout
    assert refused.returncode == 1
    assert "refused: enabled: false in herdbeat.yaml:8:5" in refused.stdout
    assert "Write enabled: true in herdbeat.yaml:8:5." in refused.stdout
    assert everything["served"] is True


def test_changes_made_while_nothing_runs_apply_to_the_next_up(fleet: UpFleet) -> None:
    with fleet.up() as process:
        read_run(process, "hourly")
        assert fleet.call("down", "--force").returncode == 0
        process.wait(PROCESS_TIMEOUT)

    paused = fleet.answer("pause", "hourly")
    with fleet.up():
        state = fleet.answer("explain", "hourly")["state"]
        resumed = fleet.answer("resume", "hourly")

    assert (paused["served"], state, resumed["served"]) == (False, "paused", True)


def test_up_waits_for_a_command_that_holds_the_state_lock(fleet: UpFleet) -> None:
    fleet.state_dir.mkdir()
    lock = StateLock(fleet.state_dir)
    lock.acquire()
    with subprocess.Popen(
        fleet.argv("up", "--json"), cwd=fleet.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(2)  # without waiting, it would have ended by now
            lock.release()
            ready = read_until(process, "node_ready")
        finally:
            lock.release()
            process.kill()

    assert ready["event"] == "node_ready"


def test_an_invalid_request_is_rejected_with_a_message(fleet: UpFleet) -> None:
    actor, pause = {"name": "human:you", "scopes": ["control"]}, {"kind": "pause", "schedules": [1]}
    with fleet.up():
        for content in (
            {},
            {"command": pause},
            {"actor": {"name": "", "scopes": []}, "command": pause},
            {"actor": {"name": "human:you", "scopes": ["read"]}, "command": pause},
            {"actor": actor},
            {"actor": actor, "command": {**pause, "schedules": ["one"]}},
            {"actor": actor, "command": {"kind": "dance"}},
            {"actor": actor, "command": {**pause, "until": "2001-01-01T00:00:00"}},
        ):
            with pytest.raises((UsageError, Forbidden)):
                send_request(fleet.state_dir, {"do": "execute", **content})
        left = send_request(
            fleet.state_dir, {"do": "execute", "actor": actor, "command": {**pause, "schedules": [99_999]}}
        )

    assert left["result"] == {"items": []}
