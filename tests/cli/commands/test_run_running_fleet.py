"""`run --wait` as a real process: it ends with the run, and also if the run can never end."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.commands.test_up import FLEET, PROCESS_TIMEOUT, UpFleet

from herdbeat.store.location import PostgresLocation


@pytest.fixture
def fleet(tmp_path: Path) -> UpFleet:
    return UpFleet(tmp_path)


@contextmanager
def waiting(fleet: UpFleet, *words: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "herdbeat", "run", "--wait", *words]
    with subprocess.Popen(argv, cwd=fleet.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_outcome(fleet: UpFleet, outcome: str) -> None:
    while outcome not in [each["outcome"] for each in fleet.answer("beats")["items"]]:  # type: ignore[attr-defined]
        pass  # every call is a process of its own, and takes long enough


def test_waiting_for_a_run_whose_node_is_killed_ends_and_says_so(fleet: UpFleet) -> None:
    """It used to wait for ever."""
    with fleet.up() as node, waiting(fleet, "endless") as process:
        wait_for_outcome(fleet, "running")
        node.kill()
        _, message = process.communicate(timeout=PROCESS_TIMEOUT)

    assert process.returncode == 1
    assert "The node stopped while this command was waiting" in message
    assert "Run 0001 was interrupted" in message


def test_waiting_for_a_queued_run_whose_node_is_killed_ends_and_says_that_it_is_kept(fleet: UpFleet) -> None:
    with fleet.up() as node:
        fleet.call("run", "endless")
        with waiting(fleet, "endless", "--queue") as process:
            wait_for_outcome(fleet, "pending")
            node.send_signal(signal.SIGKILL)
            _, message = process.communicate(timeout=PROCESS_TIMEOUT)

    assert process.returncode == 1
    assert "The node stopped while this command was waiting" in message
    assert "it starts when the fleet runs: herdbeat up" in message


def test_waiting_for_a_queued_run_that_is_cancelled_ends(fleet: UpFleet) -> None:
    with fleet.up():
        fleet.call("run", "endless")
        with waiting(fleet, "endless", "--queue") as process:
            wait_for_outcome(fleet, "pending")
            fleet.call("cancel", "endless", "--yes")
            _, message = process.communicate(timeout=PROCESS_TIMEOUT)

    assert process.returncode == 1
    assert "did not start" in message


def test_after_moving_to_postgres_no_command_reads_the_old_file(fleet: UpFleet, database: PostgresLocation) -> None:
    """`status`, `nodes`, `list` and `runs` went on with the file, and `run --wait` waited for ever for a run in it."""
    with fleet.up():
        fleet.call("run", "quick", "--wait")
        fleet.call("status")  # leaves the cache that was taken for the present later
        fleet.call("down")
    moved = FLEET.replace("version: 1\n", f'version: 1\nstore: "{database.url}"\n')
    (fleet.folder / "herdbeat.yaml").write_text(moved, encoding="utf-8")

    with fleet.up("--apply") as node:
        nodes, runs, ran = fleet.answer("nodes"), fleet.answer("runs"), fleet.call("run", "quick", "--wait")
        status = fleet.answer("status")

    assert [each["pid"] for each in nodes["items"]] == [node.pid]  # type: ignore[attr-defined]
    assert runs["items"] == []
    assert (ran.returncode, "hello" in ran.stdout) == (0, True)
    assert status["scheduler"]["pid"] == node.pid  # type: ignore[index]


def test_files_that_named_another_ledger_for_a_moment_made_commands_read_that_one(
    fleet: UpFleet, database: PostgresLocation
) -> None:
    """A command in that moment left a cache, and the node on PostgreSQL was taken for one that runs the file."""
    file = fleet.folder / "herdbeat.yaml"
    moved = FLEET.replace("version: 1\n", f'version: 1\nstore: "{database.url}"\n')
    with fleet.up():
        fleet.call("run", "quick", "--wait")
    file.write_text(moved, encoding="utf-8")

    with fleet.up("--apply") as node:
        file.write_text(FLEET, encoding="utf-8")
        status_of_file, shown = fleet.answer("status"), fleet.call("list")
        file.write_text(moved, encoding="utf-8")
        nodes, runs, status = fleet.answer("nodes"), fleet.answer("runs"), fleet.answer("status")

    assert status_of_file["scheduler"]["running"] is False  # type: ignore[index]
    assert f"The node of this folder (pid {node.pid}) runs another ledger." in shown.stdout + shown.stderr
    assert [each["pid"] for each in nodes["items"]] == [node.pid]  # type: ignore[attr-defined]
    assert runs["items"] == []
    assert status["scheduler"]["pid"] == node.pid  # type: ignore[index]


def test_a_pause_went_to_a_node_of_another_ledger_than_the_files_name(
    fleet: UpFleet, database: PostgresLocation
) -> None:
    moved = FLEET.replace("version: 1\n", f'version: 1\nstore: "{database.url}"\n')
    with fleet.up() as node:
        (fleet.folder / "herdbeat.yaml").write_text(moved, encoding="utf-8")
        fleet.call("apply")
        paused, shown = fleet.call("pause", "quick"), fleet.answer("list", "quick")
        stopped = fleet.call("down")
        node.wait(PROCESS_TIMEOUT)

    assert paused.returncode == 0
    assert [each["paused"] for each in shown["items"]] == [True]  # type: ignore[attr-defined]
    assert f"Stopped (pid {node.pid})." in stopped.stderr
