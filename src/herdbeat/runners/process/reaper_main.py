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

from herdbeat.runners.process.procfs import (
    KILL_WAIT_S,
    POLL_INTERVAL_S,
    ProcessIdentity,
    find_marked_processes,
    is_alive,
    read_process_group,
    send_signal,
    uptime,
)

TERM_GRACE_S = 2.0
"""Seconds between TERM and KILL. Short, because the next node waits for it."""

EXEC_WAIT_S = 0.5
"""How long to look for an expected child. exec closes the pipe a moment before /proc shows the new environment."""

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
        return max(0, int((self._lease_expires_at - uptime()) * 1000) + 1)

    def has_lease_expired(self) -> bool:
        """True if the lease has ended and there are runs. It stays true for runs that start before the next renewal."""
        return self._lease_expires_at is not None and bool(self._runs) and uptime() >= self._lease_expires_at

    def terminate_all(self) -> None:
        """Send TERM to all groups and strays of the runs, and KILL to those that do not end in time."""
        until = uptime() + EXEC_WAIT_S
        while self._is_child_missing() and uptime() < until:
            time.sleep(POLL_INTERVAL_S)
        for number, wait in ((signal.SIGTERM, self._grace), (signal.SIGKILL, KILL_WAIT_S)):
            signalled = self._signal(number)
            until = uptime() + wait
            while self._has_survivors(signalled) and uptime() < until:
                time.sleep(POLL_INTERVAL_S)
        self._runs.clear()

    def _is_child_missing(self) -> bool:
        """True if a child is expected and was neither announced nor found by its mark."""
        expected = {run for run, leader in self._runs.items() if leader is None}
        return bool(expected) and not expected <= {marked.run for marked in find_marked_processes(self._node)}

    def _signal(self, number: int) -> list[ProcessIdentity]:
        leaders = self._leaders()
        strays = self._strays(leaders)  # before the signals: once a leader is gone, its group looks like strays
        for leader in leaders:
            send_signal(leader, number, os.killpg)
        for stray in strays:
            send_signal(stray, number)
        return leaders + strays

    def _has_survivors(self, signalled: list[ProcessIdentity]) -> bool:
        # A process that exits loses its environment, and so its mark, a moment before it has ended.
        leaders = self._leaders()
        return any(map(is_alive, signalled)) or bool(leaders or self._strays(leaders))

    def _leaders(self) -> list[ProcessIdentity]:
        return [leader for leader in self._runs.values() if leader is not None and is_alive(leader)]

    def _strays(self, leaders: list[ProcessIdentity]) -> list[ProcessIdentity]:
        """Return processes of the runs outside these groups: not announced yet, in their own session, or leaderless."""
        groups = {leader.pid for leader in leaders}
        marked = [found.process for found in find_marked_processes(self._node) if found.run in self._runs]
        return [process for process in marked if read_process_group(process.pid) not in groups]


def main() -> None:
    """Run until the node has died, or closes the pipe because it stops."""
    node, node_pid = sys.argv[1], int(sys.argv[2])
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    watched = WatchedRuns(node)
    _watch_node(watched, node_pid)
    watched.terminate_all()


def _watch_node(watched: WatchedRuns, node_pid: int) -> None:
    """Read the pipe to its end, and return when the node has died.

    A process that the node forked may keep the pipe open after the node's death, so the node itself is watched too.
    Its death is checked first, because it may have died before this process started.
    """
    poll = select.poll()
    for descriptor in (0, *_open_node_pidfd(node_pid)):
        poll.register(descriptor, select.POLLIN)
    while True:
        is_orphan = os.getppid() != node_pid
        ready = [descriptor for descriptor, _ in poll.poll(0 if is_orphan else watched.poll_timeout_ms())]
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
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


if __name__ == "__main__":
    main()
