"""The node's side of the reaper: a small process that ends the node's children if the node is killed."""

import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

import herdbeat
from herdbeat.platform import ControlGroup, boot_time, default_signals, list_processes, read_command_line
from herdbeat.runners.process.process_tree import (
    ProcessIdentity,
    control_group_name,
    find_marked_processes,
    find_orphans,
    identify,
    is_alive,
    read_parent_pid,
    remove_groups,
    terminate_processes,
)

log = logging.getLogger(__name__)

REAPER_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from herdbeat.runners.process.reaper_main import main; main()"
)
"""With -I -S Python starts in a few milliseconds, but without site-packages, so an argument names our own folder."""

HELPER_PREFIX = "helper-"
"""The names of programs that belong to the node and to no run, such as those of a work source."""

CLOSE_TIMEOUT_S = 10.0
"""More than the reaper needs to kill children that ignore SIGTERM."""


class Reaper:
    """Starts the reaper process with the first run, and again if it is killed. Not thread-safe.

    `node` is the mark that children carry in their environment: it identifies the state directory and this process.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_hash = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:16]
        self.node = f"{self._state_hash}.{os.getpid()}.{identify(os.getpid()).start}"
        self._process: subprocess.Popen[bytes] | None = None
        self._runs: dict[str, ProcessIdentity | None] = {}
        self._lease_until: float | None = None
        self._grace_s = 0.0
        self._is_closed = False
        self._helper_numbers = count(1)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def expect(self, run: str) -> None:
        """Announce that a child will be started for this run."""
        self._runs[run] = None
        self._send_line(f"expect {run}\n")

    def watch(self, run: str, leader: ProcessIdentity) -> None:
        """Announce the run's child, which leads its process group."""
        self._runs[run] = leader
        self._send_line(_watch_line(run, leader))

    def forget(self, run: str) -> None:
        """Announce that nothing of the run is left."""
        self._runs.pop(run, None)
        self._send_line(f"forget {run}\n")

    @contextmanager
    def open_program(self) -> Iterator["Helper"]:
        """Expect a program of the node's own in the block; it must have ended when the block does."""
        helper = Helper(self, f"{HELPER_PREFIX}{next(self._helper_numbers)}")
        self.expect(helper.name)
        try:
            yield helper
        finally:
            self.forget(helper.name)

    def renew(self, lease: timedelta) -> None:
        """Extend the lease. If it is not extended again in time, the reaper ends the children: another node may start
        the same beats.

        It begins a sixth of the lease early, so that they are gone when the lease ends. Called only for stores with
        leases, so never with SQLite: a laptop that wakes up must not kill its own runs.
        """
        self._grace_s = lease.total_seconds() / 6
        self._lease_until = boot_time() + lease.total_seconds() - self._grace_s
        if self._process is not None:
            self._send_line(self._lease_line())

    def close(self) -> None:
        """Close the pipe, upon which the reaper ends what it still watches, and wait for it."""
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
                line = self._lease_line() + line
            assert self._process.stdin is not None
            # Writes of up to PIPE_BUF bytes are atomic, and the pipe has room for thousands of these lines.
            os.write(self._process.stdin.fileno(), line.encode())
        except (BrokenPipeError, BlockingIOError):
            log.warning("reaper lost pid=%s runs=%s starting a new one", self.pid, len(self._runs))
            self._replace()
        except OSError as error:
            log.error(  # noqa: TRY400
                "reaper not started error=%s if the node is killed, its child processes run until its next start", error
            )

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
        with default_signals() as preexec_fn:
            process = subprocess.Popen(  # noqa: S603  our own interpreter
                [sys.executable, "-I", "-S", "-c", REAPER_BOOTSTRAP, root, self.node, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: value for name, value in os.environ.items() if not name.startswith("HERDBEAT_")},
                bufsize=0,
                start_new_session=True,
                preexec_fn=preexec_fn,  # noqa: PLW1509  only where signals cannot be restored otherwise
            )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def end_leftovers(self, runs: frozenset[str] | None = None, wait: timedelta = timedelta(seconds=5)) -> int:
        """End processes that dead nodes of this state directory left running; return how many there were. Blocks.

        `runs` are the runs without an outcome; helpers are always ended. If it is None, all marked processes are ended,
        even a server that a finished run has started on purpose.
        """
        own_pids = _self_and_ancestors()
        leftovers = {
            marked.process
            for marked in find_marked_processes(self._state_hash)
            if not _is_node_alive(marked.node)
            and (runs is None or marked.run in runs or marked.run.startswith(HELPER_PREFIX))
        }
        leftovers.update(find_orphans(self._state_hash, runs))
        groups = self._list_dead_groups()
        for group in groups:
            if runs is None or group.name.rpartition("-")[2] in runs:
                leftovers.update(map(identify, group.list_pids()))
        count = terminate_processes([each for each in leftovers if each.pid not in own_pids], wait.total_seconds())
        remove_groups(groups)
        return count

    def _list_dead_groups(self) -> list[ControlGroup]:
        """Return the control groups of runs of dead nodes of this state directory."""
        groups = ControlGroup.find_all(control_group_name(f"{self._state_hash}.", "").removesuffix("-"))
        return [each for each in groups if not _is_node_alive(each.name.removeprefix("herdbeat-").rpartition("-")[0])]


@dataclass(frozen=True, slots=True)
class Helper:
    """A program of the node that is no run. It ends with the node."""

    reaper: Reaper
    name: str

    @property
    def marks(self) -> Mapping[str, str]:
        """The variables that it is found by."""
        return {"HERDBEAT_NODE": self.reaper.node, "HERDBEAT_RUN": self.name}

    def watch(self, pid: int) -> None:
        """It has started, and leads its process group."""
        self.reaper.watch(self.name, identify(pid))


def _watch_line(run: str, leader: ProcessIdentity) -> str:
    return f"watch {run} {leader.pid} {leader.start}\n"


def _is_node_alive(node: str) -> bool:
    _, _, numbers = node.partition(".")
    pid, _, start = numbers.partition(".")
    if not (pid.isdecimal() and start.isdecimal()):
        return True  # not a mark of this program: its maker may be alive
    return is_alive(ProcessIdentity(int(pid), int(start)))


def has_leftovers(pid: int, start: int) -> bool:
    """True while processes of a dead node are there: its reaper, which ends its programs, or a program. Blocks.

    Any state directory: `pid` and `start` identify the node on this machine.
    """
    mark = f".{pid}.{start}"
    if any(each.node.endswith(mark) for each in find_marked_processes("")):
        return True
    return any(
        word.decode("utf-8", "replace").endswith(mark)
        for process in list_processes()
        if process.is_running
        for word in read_command_line(process.pid)
    )


def _self_and_ancestors() -> set[int]:
    """Return the pids of this process and its ancestors.

    A run may start the next node itself, for example to upgrade it; that node carries the mark and must not end itself.
    """
    own_pids: set[int] = set()
    pid: int | None = os.getpid()
    while pid:
        own_pids.add(pid)
        pid = read_parent_pid(pid)
    return own_pids
