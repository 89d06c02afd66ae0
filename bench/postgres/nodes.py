"""Nodes as real processes, from outside: started, listened to, told to stop, asked what they have done."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from bench.alone import PATIENCE, Measured


class NodeProcess:
    """One node. It has joined when this is made."""

    def __init__(self, url: str, folder: Path, **orders: object) -> None:
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "bench.postgres.node", url, str(folder), json.dumps(orders)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # Whoever listens to a node that hangs would wait for ever.
        self._patience = Timer(PATIENCE, self._process.kill)
        self._patience.daemon = True
        self._patience.start()
        self.ready = self.hear("ready")

    def hear(self, event: str) -> Measured:
        """The next line about that. Raises RuntimeError if the node has ended without one."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said: Measured = json.loads(line)
            if said["event"] == event:
                return said
        self.end()
        raise RuntimeError(f'a node has ended with {self._process.returncode} and never said "{event}"')

    def done(self) -> Measured:
        """Wait until it has done what it was told to, or tell it to stop; then what it has done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        said = self.hear("done")
        self._process.wait()
        return said

    def end(self) -> None:
        """However far it is. A second time it does nothing."""
        self._patience.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def nodes(url: str, folder: Path, count: int, **orders: object) -> Iterator[list[NodeProcess]]:
    """So many, all of them ready, each with a state directory of its own. None is left when the block is."""
    started: list[NodeProcess] = []
    try:
        # One by one: if the second cannot start, the first is ended.
        for number in range(count):
            started.append(NodeProcess(url, folder / f"node-{number}", **orders))  # noqa: PERF401
        yield started
    finally:
        for each in started:
            each.end()
