"""A real Ray cluster on loopback: a head and worker nodes, each of which can die as a machine does."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 300
_MARK = "HERDBEAT_TEST_RAY_NODE"


class RayCluster:
    """Nodes by name. Every process of a node has its mark in the environment: those of Ray, and all that jobs start."""

    def __init__(self, program: str, folder: Path) -> None:
        self.folder = folder
        self._program = program
        self._marks: dict[str, str] = {}
        self._head_port, dashboard_port = _free_ports(2)
        self.url = f"http://127.0.0.1:{dashboard_port}"

    def start_head(self, cpus: int) -> None:
        ports = ["--port", str(self._head_port), "--dashboard-port", self.url.rpartition(":")[2]]
        dashboard = ["--include-dashboard", "true", "--dashboard-host", "127.0.0.1"]
        folder = ["--temp-dir", str(self.folder)]
        self._start("head", cpus, "--head", *ports, *dashboard, *folder)

    def start_worker(self, cpus: int) -> None:
        self._start("worker", cpus, "--address", f"127.0.0.1:{self._head_port}")

    def _start(self, node: str, cpus: int, *options: str) -> None:
        mark = self._marks[node] = uuid.uuid4().hex
        argv = [self._program, "start", *options, "--num-cpus", str(cpus), "--labels", f"place={node}"]
        argv += ["--node-ip-address", "127.0.0.1", "--disable-usage-stats"]
        argv += ["--object-store-memory", str(100 * 1024**2)]
        log = self.folder / f"start-{node}.log"
        with log.open("ab") as output:
            environ = os.environ | {_MARK: mark, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
            done = subprocess.run(argv, env=environ, stdout=output, stderr=output, timeout=START_TIMEOUT_S, check=False)
        assert done.returncode == 0, log.read_text(errors="replace")

    def kill(self, node: str) -> None:
        """The machine of this node loses power: all its processes end at once, and none is left."""
        mark = f"{_MARK}={self._marks.pop(node)}".encode()
        while pids := [pid for pid in _list_pids() if mark in _read_environ(pid)]:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        for node in list(self._marks):
            self.kill(node)

    def jobs(self) -> list[dict[str, Any]]:
        """Return Ray's own records of all jobs."""
        with urllib.request.urlopen(f"{self.url}/api/jobs/", timeout=START_TIMEOUT_S) as answer:
            return list(json.load(answer))

    def find_text(self, *texts: str) -> list[str]:
        """Return the files of Ray, logs among them, in which one of these texts stands."""
        wanted = [each.encode() for each in texts]
        files = [each for each in self.folder.rglob("*") if each.is_file() and not each.is_symlink()]
        return [str(each) for each in files if any(text in each.read_bytes() for text in wanted)]


def _list_pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").glob("[0-9]*")]


def _read_environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return []


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def ray_cluster(program: str, cpus: int) -> Iterator[RayCluster]:
    """Start a head and a worker with so many CPUs each; end both with the block.

    The folder has a short path, because the sockets in it may have 107 letters.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    cluster = RayCluster(program, folder)
    try:
        cluster.start_head(cpus)
        cluster.start_worker(cpus)
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)
