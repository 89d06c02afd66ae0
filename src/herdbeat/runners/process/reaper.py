"""The node's side of its guardian: a small process that ends the node's children should the node be killed."""

import hashlib
import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import herdbeat
from herdbeat.runners.process.procfs import (
    ProcessIdentity,
    find_marked_processes,
    is_alive,
    read_parent_pid,
    read_start_time,
    terminate_processes,
    uptime,
)

log = logging.getLogger(__name__)

REAPER_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from herdbeat.runners.process.reaper_main import main; main()"
)
"""With -I -S Python starts in a few milliseconds, and knows no packages but its own: so the way to ours is told."""

CLOSE_TIMEOUT_S = 10.0
"""Seconds for a guardian to end: more than it takes to end children that do not obey."""


class Reaper:
    """Started by the first run that needs it, and again should it be killed. Not for use from several threads.

    `node` is the mark that children carry in their environment: which state directory, and which process of it.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_hash = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:16]
        self.node = f"{self._state_hash}.{os.getpid()}.{read_start_time(os.getpid())}"
        self._process: subprocess.Popen[bytes] | None = None
        self._runs: dict[str, ProcessIdentity | None] = {}
        self._lease_until: float | None = None
        self._grace_s = 0.0
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def expect(self, run: str) -> None:
        """A child will be started for this run."""
        self._runs[run] = None
        self._send_line(f"expect {run}\n")

    def watch(self, run: str, leader: ProcessIdentity) -> None:
        """The run's child is there, and leads its group."""
        self._runs[run] = leader
        self._send_line(_watch_line(run, leader))

    def forget(self, run: str) -> None:
        """Nothing is left of the run."""
        self._runs.pop(run, None)
        self._send_line(f"forget {run}\n")

    def renew(self, lease: timedelta) -> None:
        """Be called again within the lease, or the children are ended: another node may start in their place.

        They are asked to end a little before it is over, so that they are gone when it is. Only where leases are kept,
        so not on SQLite, where a suspended laptop must kill nothing (SEMANTICS 23).
        """
        self._grace_s = lease.total_seconds() / 6
        self._lease_until = uptime() + lease.total_seconds() - self._grace_s
        if self._process is not None:
            self._send_line(self._lease_line())

    def close(self) -> None:
        """Let it go. If anything is still watched, it is ended, and waited for."""
        self._is_closed = True
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _send_line(self, line: str) -> None:
        if self._is_closed:
            return
        try:
            if self._process is None:
                self._process = self._start()
                self._write(self._lease_line())
            self._write(line)
        except (BrokenPipeError, BlockingIOError):
            log.warning("guardian lost pid=%s runs=%s a new one takes over", self.pid, len(self._runs))
            self._replace()
        except OSError as error:
            log.error("no guardian error=%s if the node is killed now, its children end at its next start", error)  # noqa: TRY400

    def _write(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # Short enough to be written whole or not at all, and into a pipe that has room for thousands of them.
        os.write(self._process.stdin.fileno(), line.encode())

    def _lease_line(self) -> str:
        return "" if self._lease_until is None else f"lease {self._lease_until} {self._grace_s}\n"

    def _replace(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process = None
        for run, leader in self._runs.items():
            self._send_line(f"expect {run}\n" if leader is None else _watch_line(run, leader))

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(herdbeat.__file__).parent.parent)
        process = subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-I", "-S", "-c", REAPER_BOOTSTRAP, root, self.node, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: value for name, value in os.environ.items() if not name.startswith("HERDBEAT_")},
            bufsize=0,
            start_new_session=True,
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def end_leftovers(self, runs: frozenset[str] | None = None, wait: timedelta = timedelta(seconds=5)) -> int:
        """End what dead nodes of this state directory have left running; returns how many there were. Blocks.

        `runs` says which runs never ended. Without it everything with our mark goes, also a server that an earlier
        run has started on purpose and left behind in good order.
        """
        own_pids = _self_and_ancestors()
        found = [
            each.process
            for each in find_marked_processes(self._state_hash)
            if each.process.pid not in own_pids and not _is_node_alive(each.node) and (runs is None or each.run in runs)
        ]
        return terminate_processes(found, wait.total_seconds())


def _watch_line(run: str, leader: ProcessIdentity) -> str:
    return f"watch {run} {leader.pid} {leader.start}\n"


def _is_node_alive(node: str) -> bool:
    _, _, numbers = node.partition(".")
    pid, _, start = numbers.partition(".")
    if not (pid.isdecimal() and start.isdecimal()):
        return True  # not a mark that we have made: whoever made it may be alive
    return is_alive(ProcessIdentity(int(pid), int(start)))


def _self_and_ancestors() -> set[int]:
    """A node may be started by a run of its predecessor, say one that upgrades it: it must not end itself."""
    own_pids: set[int] = set()
    pid: int | None = os.getpid()
    while pid:
        own_pids.add(pid)
        pid = read_parent_pid(pid)
    return own_pids
