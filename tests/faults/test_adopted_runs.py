"""Runs on an engine whose node dies while another one of the same PostgreSQL ledger lives: it follows them to the end.

Real nodes with their servers; only the engine is the test's. Starts are counted at the program.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fake_ray import FakeRay, fake_ray
from tests.support.remote_fleet import DEADLINE_S, FakeRayFleet, is_program_running, wait_for

from herdbeat.store.location import PostgresLocation

pytestmark = pytest.mark.timeout(6 * DEADLINE_S)


class SharedRayFleet(FakeRayFleet):
    """One node of a fleet on PostgreSQL, in a folder of its own. Its runs report to the server of `callback`."""

    def __init__(self, folder: Path, ray: FakeRay, place: PostgresLocation, first: "SharedRayFleet | None") -> None:
        folder.mkdir()
        super().__init__(folder, ray)
        self.place, self.callback, self.lease = place, self.url, "60s"
        if first is not None:
            self.started, self.release, self.token_file = first.started, first.release, first.token_file
            first.callback = self.url

    def fleet_lines(self) -> str:
        return f'fleet: {{ name: shared }}\nstore: "{self.place.url}"\nlease: 30s\n'

    def executor_lines(self) -> str:
        return f"{super().executor_lines()}    callback: {self.callback}\n"


@pytest.fixture
def nodes(tmp_path: Path, database: PostgresLocation) -> Iterator[tuple[SharedRayFleet, SharedRayFleet]]:
    """Yield the node that submits and dies, and the one that lives and is reported to."""
    with fake_ray() as ray:
        first = SharedRayFleet(tmp_path / "first", ray, database, None)
        second = SharedRayFleet(tmp_path / "second", ray, database, first)
        second.folder.joinpath("program.py").write_text(first.folder.joinpath("program.py").read_text())
        first.write()
        first.call("apply")
        yield first, second


def kill(node: "subprocess.Popen[bytes]") -> None:
    os.kill(node.pid, signal.SIGKILL)
    node.wait()


def test_a_taken_run_of_a_dead_node_is_followed_by_the_node_that_lives(
    nodes: tuple[SharedRayFleet, SharedRayFleet],
) -> None:
    first, second = nodes
    with first.up() as dying:
        first.create_token()
        first.start_run()
        wait_for(lambda: bool(first.ray.jobs))
        with second.up():
            wait_for(lambda: bool(first.starts()))
            kill(dying)
            second.release.touch()
            ended = second.wait_status("succeeded", "interrupted", "failed")
            assert ended["status"] == "succeeded", ended
            log = second.log()
    assert "done" in log
    assert len(first.starts()) == 1
    wait_for(lambda: not is_program_running(first))


def test_a_run_that_is_adopted_can_still_be_cancelled(nodes: tuple[SharedRayFleet, SharedRayFleet]) -> None:
    first, second = nodes
    with first.up() as dying:
        first.create_token()
        first.start_run()
        wait_for(lambda: bool(first.ray.jobs))
        with second.up():
            wait_for(lambda: bool(first.starts()))
            kill(dying)
            wait_for(lambda: "begun" in second.log())
            second.ask(f"/runs/{second.newest()['id']}/cancel", {})
            assert second.wait_status("cancelled")
            wait_for(lambda: not is_program_running(first))


def test_a_cancel_that_was_asked_of_a_node_that_died_is_carried_out_by_the_node_that_lives(
    nodes: tuple[SharedRayFleet, SharedRayFleet],
) -> None:
    first, second = nodes
    with first.up() as dying:
        first.create_token()
        first.start_run()
        wait_for(lambda: bool(first.ray.jobs))
        with second.up():
            wait_for(lambda: bool(first.starts()))
            os.kill(dying.pid, signal.SIGSTOP)
            second.ask(f"/runs/{second.newest()['id']}/cancel", {"reason": "not today"})
            kill(dying)
            ended = second.wait_status("cancelled", "interrupted", "succeeded")
            assert ended["status"] == "cancelled", ended
            assert "not today" in ended["error"]
            wait_for(lambda: not is_program_running(first))
    assert len(first.starts()) == 1
