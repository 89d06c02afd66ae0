"""Runs on an engine, from the outside: real nodes, real servers, real `herdbeat exec`; only the engine is ours.

What happened is counted at the target: each start of its program adds a line to a file.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_ray import FakeJob, FakeRay, fake_ray

from herdbeat.bootstrap.remote_exec import EXIT_REFUSED

DEADLINE_S = 90
"""A generous limit: only something broken reaches it."""

pytestmark = pytest.mark.timeout(6 * DEADLINE_S)

SECRET_PROMPT = "the-secret-prompt-of-the-beat"
PROGRAM = """\
import os, sys, time
with open({started!r}, "a") as file:
    file.write(os.environ["HERDBEAT_RUN"] + "\\n")
print("begun with", [name for name in os.environ if "TOKEN" in name], flush=True)
while not os.path.exists({release!r}):
    time.sleep(0.05)
print("done", flush=True)
"""


class RemoteFleet:
    """A folder with one command that runs on the engine, `herdbeat up` in it, and its server.

    It asks the server: a command line takes seconds on a busy machine, and these tests ask often.
    """

    def __init__(self, folder: Path, ray: FakeRay) -> None:
        self.folder, self.ray = folder, ray
        self.started, self.release = folder / "started", folder / "release"
        self.token_file = folder / "exec-token"
        self.url = f"http://127.0.0.1:{_free_port()}"
        self.start_timeout, self.lease = "80s", "10s"
        program = folder / "program.py"
        program.write_text(PROGRAM.format(started=str(self.started), release=str(self.release)))
        self.token_file.write_text("not yet\n")

    def write(self) -> None:
        (self.folder / "herdbeat.yaml").write_text(
            f"""\
version: 1
server: {{ port: {self.url.rpartition(":")[2]} }}
executors:
  ray:
    url: "{self.ray.url}"
    token_file: {self.token_file}
    command: [{sys.executable}, -m, herdbeat]
    lease: {self.lease}
commands:
  - name: embed
    command: [{sys.executable}, program.py]
    executor: ray
    resources: {{ start_timeout: {self.start_timeout} }}
    every: 1d
    first_run: after_interval
    prompt: {SECRET_PROMPT}
"""
        )

    def ask(self, path: str, body: object = None) -> dict[str, Any]:
        """Return what the server answers: to a GET, or to a POST with this body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Origin": self.url, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return dict(json.load(answer))

    def start_run(self) -> None:
        self.ask("/schedules/embed/default/runs", {})

    def newest(self) -> dict[str, Any]:
        items = self.ask("/runs")["items"]
        return dict(items[0]) if items else {}

    def wait_status(self, *wanted: str) -> dict[str, Any]:
        """Return the newest run once it has one of these statuses."""
        wait_for(lambda: self.newest().get("status") in wanted)
        return self.newest()

    def log(self) -> str:
        request = urllib.request.Request(f"{self.url}/api/v1/runs/{self.newest()['id']}/log")
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return str(answer.read().decode())

    def starts(self) -> list[str]:
        return self.started.read_text().split() if self.started.exists() else []

    def create_token(self, scope: str = "exec:ray") -> None:
        made = self.ask("/tokens", {"name": f"t{time.monotonic_ns()}", "scope": scope})
        self.token_file.write_text(made["token"])

    def begin(self) -> FakeJob:
        """Start a run, and return its job once its program has begun and its log has arrived."""
        self.start_run()
        wait_for(lambda: bool(self.starts()))
        wait_for(lambda: "begun" in self.log())
        return next(iter(self.ray.jobs.values()))

    @contextmanager
    def up(self) -> Iterator["subprocess.Popen[bytes]"]:
        self.write()
        argv = [sys.executable, "-m", "herdbeat", "up", "--json"]
        with (self.folder / "up.log").open("ab") as output:
            environ = {name: value for name, value in os.environ.items() if name != "HERDBEAT_NO_SERVER"}
            process = subprocess.Popen(argv, cwd=self.folder, stdout=output, stderr=output, env=environ)
        try:
            wait_for(self.is_ready)
            yield process
        finally:
            process.kill()
            process.wait()
            wait_for(lambda: not self.is_ready())  # the server ends after its node, and would answer for the next one

    def is_ready(self) -> bool:
        try:
            return bool(self.ask("/runs"))
        except OSError:
            return False


def wait_for(probe: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not probe():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[RemoteFleet]:
    with fake_ray() as ray:
        yield RemoteFleet(tmp_path, ray)


def test_a_run_on_an_engine_is_recorded_like_a_local_one_and_the_engine_learns_no_secret(fleet: RemoteFleet) -> None:
    fleet.release.touch()
    with fleet.up():
        fleet.create_token()
        fleet.start_run()
        ended = fleet.wait_status("succeeded", "failed", "interrupted")
        assert (ended["status"], ended["code"]) == ("succeeded", 0), ended
        log = fleet.log()
    assert "done" in log
    assert "runs on ray" in log
    assert "begun with []" in log, "no token is in the environment of the program"
    assert len(fleet.starts()) == 1
    (job,) = fleet.ray.jobs.values()
    known = json.dumps(job.request)
    assert SECRET_PROMPT not in known
    assert fleet.token_file.read_text() not in known


def test_a_job_that_the_engine_starts_three_times_runs_once(fleet: RemoteFleet) -> None:
    fleet.ray.copies = 3
    with fleet.up():
        fleet.create_token()
        job = fleet.begin()
        wait_for(lambda: [each.poll() for each in job.processes].count(EXIT_REFUSED) == 2)
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_a_cancelled_run_ends_on_the_engine_too(fleet: RemoteFleet) -> None:
    with fleet.up():
        fleet.create_token()
        job = fleet.begin()
        fleet.ask(f"/runs/{fleet.newest()['id']}/cancel", {})
        assert fleet.wait_status("cancelled")
        wait_for(lambda: all(each.poll() is not None for each in job.processes))
        wait_for(lambda: not is_program_running(fleet))
    assert len(fleet.starts()) == 1


def test_a_run_outlives_its_killed_node_and_the_next_node_records_its_end(fleet: RemoteFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        os.kill(node.pid, signal.SIGKILL)
        node.wait()
        wait_for(lambda: not fleet.is_ready())  # the server ends a moment after its node
    with fleet.up():
        assert fleet.newest()["status"] == "running"
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_an_orderly_stop_leaves_the_run_alone(fleet: RemoteFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        node.send_signal(signal.SIGTERM)
        assert node.wait(DEADLINE_S) == 0
    fleet.release.touch()
    with fleet.up():
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_a_killed_exec_takes_its_program_with_it_and_its_run_is_interrupted(fleet: RemoteFleet) -> None:
    with fleet.up():
        fleet.create_token()
        job = fleet.begin()
        fleet.ray.kill(job.name)
        ended = fleet.wait_status("interrupted")
        assert "was lost" in ended["error"]
    wait_for(lambda: not is_program_running(fleet))
    assert len(fleet.starts()) == 1


def test_an_engine_without_room_is_given_up_and_what_it_starts_too_late_is_refused(fleet: RemoteFleet) -> None:
    fleet.ray.full, fleet.start_timeout = True, "2s"
    with fleet.up():
        fleet.create_token()
        fleet.start_run()
        assert "start_timeout" in fleet.wait_status("interrupted")["error"]
        (job,) = fleet.ray.jobs.values()
        fleet.ray.start(job)
        wait_for(lambda: job.processes[0].poll() is not None)
        assert job.processes[0].returncode == EXIT_REFUSED
    assert fleet.starts() == []


def test_a_job_that_the_engine_has_lost_is_noticed(fleet: RemoteFleet) -> None:
    fleet.ray.loses = True
    with fleet.up():
        fleet.start_run()
        assert "no longer knows the job" in fleet.wait_status("interrupted")["error"]
    assert fleet.starts() == []


def test_the_token_of_an_administrator_takes_no_run(fleet: RemoteFleet) -> None:
    with fleet.up():
        fleet.create_token("admin")
        fleet.start_run()
        wait_for(lambda: bool(fleet.ray.jobs))
        (job,) = fleet.ray.jobs.values()
        wait_for(lambda: job.processes[0].poll() is not None)
        assert job.processes[0].returncode == EXIT_REFUSED
        assert "exit code" in fleet.wait_status("interrupted")["error"]
    assert fleet.starts() == []


def is_program_running(fleet: RemoteFleet) -> bool:
    """Whether any process works in the folder of the fleet as its program, by /proc."""
    for each in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (each / "cwd").readlink() == fleet.folder and b"program.py" in (each / "cmdline").read_bytes()
        except OSError:
            continue
        if is_ours:
            return True
    return False
