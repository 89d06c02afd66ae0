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

from herdbeat.runners.processes import DYING, POLL, Process, group_of, is_alive, marked, send, send_group, uptime

OBEY = 2.0
"""Seconds between TERM and KILL: the node's successor is waiting."""

DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals for the node often go to everything around it; the guardian must outlive it."""


class Watch:
    """The runs that are going on, each with the leader of its group if it has one yet."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._runs: dict[str, Process | None] = {}
        self._lapses_at: float | None = None
        self._grace = OBEY
        self._rest = b""

    def hear(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(line.decode().split())

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["expect", run]:
                self._runs[run] = None
            case ["watch", run, pid, start]:
                self._runs[run] = Process(int(pid), int(start))
            case ["forget", run]:
                self._runs.pop(run, None)
            case ["lease", until, *obey]:
                self._lapses_at, self._grace = float(until), min([OBEY, *map(float, obey)])

    def patience(self) -> int | None:
        """Milliseconds until the lease lapses; None if there is none to watch, or nothing to end."""
        if self._lapses_at is None or not self._runs:
            return None
        return max(0, int((self._lapses_at - uptime()) * 1000) + 1)

    def has_lapsed(self) -> bool:
        """Whether there are runs without a lease. It stays so until the node renews, whatever it starts meanwhile."""
        return self._lapses_at is not None and bool(self._runs) and uptime() >= self._lapses_at

    def end_all(self) -> None:
        """TERM to every group and every stray of the runs, and KILL to those that do not obey."""
        for number, wait in ((signal.SIGTERM, self._grace), (signal.SIGKILL, DYING)):
            self._signal(number)
            until = uptime() + wait
            while self._is_anyone_left() and uptime() < until:
                time.sleep(POLL)
        self._runs.clear()

    def _signal(self, number: int) -> None:
        leaders = self._leaders()
        strays = self._strays(leaders)  # found first: once a leader is gone, its group looks like strays
        for leader in leaders:
            send_group(leader, number)
        for stray in strays:
            send(stray, number)

    def _is_anyone_left(self) -> bool:
        leaders = self._leaders()
        return bool(leaders or self._strays(leaders))

    def _leaders(self) -> list[Process]:
        return [leader for leader in self._runs.values() if leader is not None and is_alive(leader)]

    def _strays(self, leaders: list[Process]) -> list[Process]:
        """Processes of the runs outside the groups: still being announced, in a session of their own, or leaderless."""
        groups = {leader.pid for leader in leaders}
        ours = [found.process for found in marked(self._node) if found.run in self._runs]
        return [process for process in ours if group_of(process.pid) not in groups]


def main() -> None:
    """Until the node is gone, or closes the pipe because it is done."""
    node, node_pid = sys.argv[1], int(sys.argv[2])
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    watch = Watch(node)
    _listen(watch, node_pid)
    watch.end_all()


def _listen(watch: Watch, node_pid: int) -> None:
    """Hear all that was said, and return when nobody is left to say more.

    A process that the node forked may hold the pipe open when the node is gone. So its death is watched, too; and
    looked at first, for it may have come before we did.
    """
    poll = select.poll()
    for descriptor in (0, *_death_of(node_pid)):
        poll.register(descriptor, select.POLLIN)
    while True:
        is_orphan = os.getppid() != node_pid
        ready = [descriptor for descriptor, _ in poll.poll(0 if is_orphan else watch.patience())]
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            watch.hear(data)
        elif is_orphan:
            return
        if watch.has_lapsed():
            watch.end_all()


def _death_of(pid: int) -> list[int]:
    """A descriptor that wakes us when the node ends; none where the system has no such thing, or it is over."""
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


if __name__ == "__main__":
    main()
