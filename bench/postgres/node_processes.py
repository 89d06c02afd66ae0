"""Nodes as child processes: start them, read their events, stop them, collect their reports."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from bench.subprocesses import CONTENDER_TIMEOUT, Measurement


class NodeProcess:
    """One node. It is registered when the constructor returns."""

    def __init__(self, url: str, folder: Path, **options: object) -> None:
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "bench.postgres.node_main", url, str(folder), json.dumps(options)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # Without it, reading the output of a node that hangs would never end.
        self._watchdog = Timer(CONTENDER_TIMEOUT, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        self.ready = self.read_event("ready")

    def read_event(self, event: str) -> Measurement:
        """Return the next event of that name. Raises RuntimeError if the node has ended without one."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event_data: Measurement = json.loads(line)
            if event_data["event"] == event:
                return event_data
        self.kill()
        raise RuntimeError(f'a node has ended with {self._process.returncode} and never said "{event}"')

    def done(self) -> Measurement:
        """Close its input, which stops a node without `until`, and return its report when it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        event_data = self.read_event("done")
        self._process.wait()
        return event_data

    def kill(self) -> None:
        """Kill the process. Idempotent."""
        self._watchdog.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def running_nodes(url: str, folder: Path, count: int, **options: object) -> Iterator[list[NodeProcess]]:
    """Start that many nodes, each with its own state directory; yield when all are ready. They end with the block."""
    started: list[NodeProcess] = []
    try:
        # One by one: if the second cannot start, the first is killed.
        for number in range(count):
            started.append(NodeProcess(url, folder / f"node-{number}", **options))  # noqa: PERF401
        yield started
    finally:
        for each in started:
            each.kill()
