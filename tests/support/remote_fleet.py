"""A fleet whose command runs on an engine: real nodes, real servers, real `herdbeat exec`; the engine is the test's.

What happened is counted at the target: each start of its program adds a line to a file.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.fake_ray import FakeJob, FakeRay

DEADLINE_S = 90
"""A generous limit: only something broken reaches it."""

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


class RemoteFleet(ABC):
    """A folder with one command that runs on the engine, `herdbeat up` in it, and its server.

    It asks the server: a command line takes seconds on a busy machine, and these tests ask often.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started, self.release = folder / "started", folder / "release"
        self.token_file = folder / "exec-token"
        self.url, self.admin_token = f"http://127.0.0.1:{free_port()}", ""
        self.start_timeout, self.lease, self.timeout = "80s", "30s", "10m"
        self.has_engine = True
        program = folder / "program.py"
        program.write_text(PROGRAM.format(started=str(self.started), release=str(self.release)))
        self.token_file.write_text("not yet\n")

    @abstractmethod
    def executor_lines(self) -> str:
        """Return the settings of the engine, as the value of `executors` in YAML."""

    def fleet_lines(self) -> str:
        """Return the settings of the fleet, such as its store."""
        return ""

    def command_lines(self) -> str:
        """Return the commands, as the value of `commands` in YAML."""
        executor = self.executor_lines().split(":")[0].strip() if self.has_engine else "local"
        return f"""\
  - name: embed
    command: [{sys.executable}, program.py]
    executor: {executor}
    timeout: {self.timeout}
    resources: {{ start_timeout: {self.start_timeout}, memory: 64m }}
    every: 1d
    first_run: after_interval
    prompt: {SECRET_PROMPT}
"""

    def write(self) -> None:
        server = f"server: {{ port: {self.url.rpartition(':')[2]} }}"
        first = f"version: 1\n{self.fleet_lines()}{server}\n"
        executors = f"executors:\n{self.executor_lines()}" if self.has_engine else ""
        text = f"{first}{executors}commands:\n{self.command_lines()}"
        (self.folder / "herdbeat.yaml").write_text(text)

    def ask(self, path: str, body: object = None) -> dict[str, Any]:
        """Return what the server answers: to a GET, or to a POST with this body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Origin": self.url, "Content-Type": "application/json"}
        if self.admin_token:
            headers["Authorization"] = f"Bearer {self.admin_token}"
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

    def call(self, *words: str) -> str:
        """Return what a command prints."""
        argv = [sys.executable, "-m", "herdbeat", *words]
        environ = {**os.environ, "COLUMNS": "200"}
        done = subprocess.run(argv, cwd=self.folder, env=environ, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def starts(self) -> list[str]:
        return self.started.read_text().split() if self.started.exists() else []

    def create_token(self, scope: str = "exec:ray") -> None:
        made = self.ask("/tokens", {"name": f"t{time.monotonic_ns()}", "scope": scope})
        self.token_file.write_text(made["token"])

    def begin(self) -> None:
        """Start a run, and return once its program has begun and its log has arrived."""
        self.start_run()
        wait_for(lambda: bool(self.starts()))
        wait_for(lambda: "begun" in self.log())

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


class FakeRayFleet(RemoteFleet):
    """The fleet on a cluster that can lose, double and delay jobs."""

    def __init__(self, folder: Path, ray: FakeRay) -> None:
        super().__init__(folder)
        self.ray = ray

    def executor_lines(self) -> str:
        return f"""\
  ray:
    url: "{self.ray.url}"
    token_file: {self.token_file}
    command: [{sys.executable}, -m, herdbeat]
    lease: {self.lease}
"""

    def begin_job(self) -> FakeJob:
        """Start a run, and return its job once its program has begun."""
        self.begin()
        return next(iter(self.ray.jobs.values()))


def wait_for(probe: Callable[[], bool], seconds: float = DEADLINE_S) -> None:
    until = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
