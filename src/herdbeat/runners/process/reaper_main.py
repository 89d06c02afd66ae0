"""The guardian's own process: waits for its node to die, and then ends what the node has left running.

It is told over its stdin, a line each: `expect RUN` before a child is started for a run, `watch RUN PID START` after,
`forget RUN` when nothing of it is left, `lease UPTIME SECONDS` to hear of a later one before that moment, or to give
the children so long to obey. The end of stdin is the end of the node. Between `expect` and `watch` there is no gap: a
child that is being started holds our pipe open until it is a program of its own, and from then on its environment says
whose it is.
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
    send_group_signal,
    send_signal,
    uptime,
)

TERM_GRACE_S = 2.0
"""Seconds between TERM and KILL: the node's successor is waiting."""

IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals for the node often go to everything around it; the guardian must outlive it."""


class WatchedRuns:
    """The runs that are going on, each with the leader of its group if it has one yet."""

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
        """Milliseconds until the lease lapses; None if there is none to watch, or nothing to end."""
        if self._lease_expires_at is None or not self._runs:
            return None
        return max(0, int((self._lease_expires_at - uptime()) * 1000) + 1)

    def has_lease_expired(self) -> bool:
        """Whether there are runs without a lease. It stays so until the node renews, whatever it starts meanwhile."""
        return self._lease_expires_at is not None and bool(self._runs) and uptime() >= self._lease_expires_at

    def terminate_all(self) -> None:
        """TERM to every group and every stray of the runs, and KILL to those that do not obey."""
        for number, wait in ((signal.SIGTERM, self._grace), (signal.SIGKILL, KILL_WAIT_S)):
            self._signal(number)
            until = uptime() + wait
            while self._has_survivors() and uptime() < until:
                time.sleep(POLL_INTERVAL_S)
        self._runs.clear()

    def _signal(self, number: int) -> None:
        leaders = self._leaders()
        strays = self._strays(leaders)  # found first: once a leader is gone, its group looks like strays
        for leader in leaders:
            send_group_signal(leader, number)
        for stray in strays:
            send_signal(stray, number)

    def _has_survivors(self) -> bool:
        leaders = self._leaders()
        return bool(leaders or self._strays(leaders))

    def _leaders(self) -> list[ProcessIdentity]:
        return [leader for leader in self._runs.values() if leader is not None and is_alive(leader)]

    def _strays(self, leaders: list[ProcessIdentity]) -> list[ProcessIdentity]:
        """Processes of the runs outside the groups: still being announced, in a session of their own, or leaderless."""
        groups = {leader.pid for leader in leaders}
        ours = [found.process for found in find_marked_processes(self._node) if found.run in self._runs]
        return [process for process in ours if read_process_group(process.pid) not in groups]


def main() -> None:
    """Until the node is gone, or closes the pipe because it is done."""
    node, node_pid = sys.argv[1], int(sys.argv[2])
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    watched = WatchedRuns(node)
    _watch_node(watched, node_pid)
    watched.terminate_all()


def _watch_node(watched: WatchedRuns, node_pid: int) -> None:
    """Hear all that was said, and return when nobody is left to say more.

    A process that the node forked may hold the pipe open when the node is gone. So its death is watched, too; and
    looked at first, for it may have come before we did.
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
    """A descriptor that wakes us when the node ends; none where the system has no such thing, or it is over."""
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


if __name__ == "__main__":
    main()
