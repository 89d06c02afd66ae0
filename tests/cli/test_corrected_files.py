"""A target that is corrected in its file, and one-shots that have fired."""

import time
from pathlib import Path

import pytest
from tests.cli.commands.test_up import UpFleet

FLEET = """\
version: 1
commands:
  - { name: job, command: ["sh", "-c", "exit STATUS"], every: 20m }
"""
WAIT_S = 30.0


def wait_for(fleet: UpFleet, words: tuple[str, ...], key: str, value: object) -> dict[str, object]:
    deadline = time.monotonic() + WAIT_S
    while True:
        found = fleet.answer(*words)
        if found[key] == value or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_a_corrected_program_is_not_delayed_by_the_failures_of_the_old_one(tmp_path: Path) -> None:
    fleet = UpFleet(tmp_path)
    file = tmp_path / "herdbeat.yaml"
    file.write_text(FLEET.replace("STATUS", "1"), encoding="utf-8")
    with fleet.up():
        failing = wait_for(fleet, ("show", "job"), "failures", 1)
        file.write_text(FLEET.replace("STATUS", "0"), encoding="utf-8")
        corrected = wait_for(fleet, ("show", "job"), "failures", 0)

    assert failing["failures"] == 1
    assert corrected["failures"] == 0
    assert str(corrected["next_run_at"]) < str(failing["next_run_at"])


@pytest.fixture
def fired(tmp_path: Path) -> UpFleet:
    fleet = UpFleet(tmp_path)
    (tmp_path / "herdbeat.yaml").unlink()
    command = "sh -c 'echo hi >> out.txt'"
    fleet.call("create", "once", "--command", command, "--at", "2020-01-01T00:00:00Z")
    return fleet


def test_a_one_shot_that_has_fired_is_not_enabled_and_update_arms_it_again(fired: UpFleet) -> None:
    out = fired.folder / "out.txt"
    with fired.up():
        done = wait_for(fired, ("show", "once"), "state", "done")
        updated = fired.call("update", "once", "--enabled", "true")
        deadline = time.monotonic() + WAIT_S
        while out.read_text(encoding="utf-8") != "hi\nhi\n" and time.monotonic() < deadline:
            time.sleep(0.1)

    assert (done["state"], done["enabled"]) == ("done", False)
    assert updated.returncode == 0, updated.stderr
    assert out.read_text(encoding="utf-8") == "hi\nhi\n"
    assert "enabled     false: it has fired" in fired.call("show", "once").stdout
