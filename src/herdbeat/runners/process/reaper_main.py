"""The reaper process: waits for its node to die, then ends the children that the node left running.

The node writes lines to its stdin:

    expect RUN            before it starts a child for a run
    watch RUN PID START   when the child has started; START is its start time
    forget RUN            when nothing of the run is left
    lease UPTIME GRACE    the lease ends at UPTIME; children then get GRACE seconds between TERM and KILL

The end of stdin means that the node has died. No child is lost between `expect` and `watch`: while it is being started
it holds the pipe open, and after exec its environment carries the mark of the node and the run.
"""

import os
import select
import signal
import sys
import time

from herdbeat.platform import ControlGroup, ProcessInfo, boot_time, open_pidfd
from herdbeat.runners.process.process_tree import (
    KILL_WAIT_S,
    POLL_INTERVAL_S,
    ProcessIdentity,
    control_group_name,
    find_marked_processes,
    find_run_processes,
    is_alive,
    remove_groups,
    send_signal,
)

TERM_GRACE_S = 2.0
"""Seconds between TERM and KILL. Short, because the next node waits for it."""

EXEC_WAIT_S = 0.5
"""How long to look for an expected child. exec closes the pipe a moment before /proc shows the new environment."""

PARENT_CHECK_MS = 500
"""How often to look for the node on a system without pidfds."""

IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals for the node often go to all processes of its terminal or service. The reaper must outlive the node."""


class WatchedRuns:
    """The active runs, each with the leader of its process group, or None until that is announced."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._runs: dict[str, ProcessIdentity | None] = {}
        self._lease_expires_at: float | None = None
        self._grace = TERM_GRACE_S
        self._partial_line = b""
        self._found: set[ProcessIdentity] = set()

    def feed(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._apply_line(line.decode().split())

    def _apply_line(self, fields: list[str]) -> None:
        match fields:
            case ["expect", run]:
                self._runs[run] = None
            case ["watch", run, pid, start]:
                self._runs[run] = ProcessIdentity(int(pid), int(start))
            case ["forget", run]:
                self._runs.pop(run, None)
            case ["lease", until, *grace]:
                self._lease_expires_at, self._grace = float(until), min([TERM_GRACE_S, *map(float, grace)])

    def poll_timeout_ms(self) -> int | None:
        """Return the milliseconds until the lease ends; None if there is no lease, or nothing to end."""
        if self._lease_expires_at is None or not self._runs:
            return None
        return max(0, int((self._lease_expires_at - boot_time()) * 1000) + 1)

    def has_lease_expired(self) -> bool:
        """True if the lease has ended and there are runs. It stays true for runs that start before the next renewal."""
        return self._lease_expires_at is not None and bool(self._runs) and boot_time() >= self._lease_expires_at

    def terminate_all(self) -> None:
        """Send TERM to all processes of the runs, and KILL until none is left, for a limited time."""
        until = boot_time() + EXEC_WAIT_S
        while self._is_child_missing() and boot_time() < until:
            time.sleep(POLL_INTERVAL_S)
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped program, as one that was just being confined, gets TERM only then
        until = boot_time() + self._grace
        while self._find() and boot_time() < until:
            time.sleep(POLL_INTERVAL_S)
        until = boot_time() + KILL_WAIT_S
        while self._signal(signal.SIGKILL) and boot_time() < until:
            time.sleep(POLL_INTERVAL_S)
        self._runs.clear()
        self._found.clear()

    def _is_child_missing(self) -> bool:
        """True if a child is expected and was neither announced nor found by its mark."""
        expected = {run for run, leader in self._runs.items() if leader is None}
        return bool(expected) and not expected <= {marked.run for marked in find_marked_processes(self._node)}

    def _signal(self, number: int) -> bool:
        """Signal all processes of the runs; return whether there are any."""
        found = self._find()
        leaders = [leader for leader in self._runs.values() if leader is not None and is_alive(leader)]
        for leader in leaders:
            send_signal(leader, number, os.killpg)
        groups = {leader.pid for leader in leaders}
        for process in found:
            if process.group not in groups:
                send_signal(ProcessIdentity(process.pid, process.start), number)
        return bool(found)

    def _find(self) -> list[ProcessInfo]:
        # What was found before is still looked for: an exiting process loses its mark a moment before it has ended.
        found = find_run_processes(self._node, self._runs, self._found)
        self._found.update(ProcessIdentity(process.pid, process.start) for process in found)
        return found


def main() -> None:
    """Run until the node has died, or closes the pipe because it stops."""
    node, node_pid = sys.argv[1], int(sys.argv[2])
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    watched = WatchedRuns(node)
    _watch_node(watched, node_pid)
    watched.terminate_all()
    remove_groups(ControlGroup.find_all(control_group_name(node, "")))


def _watch_node(watched: WatchedRuns, node_pid: int) -> None:
    """Read the pipe to its end, and return when the node has died.

    A process that the node forked may keep the pipe open after the node's death, so the node itself is watched too.
    Its death is checked first, because it may have died before this process started.
    """
    poll = select.poll()
    node_pidfd = _open_node_pidfd(node_pid)
    for descriptor in (0, *node_pidfd):
        poll.register(descriptor, select.POLLIN)
    longest_wait_ms = None if node_pidfd else PARENT_CHECK_MS
    while True:
        is_orphan = os.getppid() != node_pid
        waits_ms = [wait for wait in (watched.poll_timeout_ms(), longest_wait_ms) if wait is not None]
        ready = [descriptor for descriptor, _ in poll.poll(0 if is_orphan else min(waits_ms, default=None))]
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            watched.feed(data)
        elif is_orphan:
            return
        if watched.has_lease_expired():
            watched.terminate_all()


def _open_node_pidfd(pid: int) -> list[int]:
    """Return a descriptor that becomes readable when the node ends; none without pidfds, or if it has ended."""
    try:
        descriptor = open_pidfd(pid)
    except OSError:
        return []
    return [] if descriptor is None else [descriptor]


if __name__ == "__main__":
    main()
