"""What the kernel tells about processes: when one started, what marks it carries, how to end it and no other.

The guardian runs on this module alone, so it uses little of Python. A process is named by its pid and its start time
together, because a pid is used again. Where there is no /proc, start times are unknown and nothing is found.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

POLL = 0.02
DYING = 1.0
"""Seconds for a killed process to be gone; one that the kernel holds longer is not waited for."""

HAS_PROC = os.path.exists("/proc/self/stat")  # noqa: PTH110  pathlib would double the guardian's start
UNKNOWN = 0
"""The start time of a process on a system that does not tell."""


class Process(NamedTuple):
    pid: int
    start: int


class Marked(NamedTuple):
    """A process that was started for a run: by which node, and for which run."""

    process: Process
    node: str
    run: str


def start_of(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if there is none of that pid."""
    if not HAS_PROC:
        return UNKNOWN
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def parent_of(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def group_of(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[2])


def is_alive(process: Process) -> bool:
    """Whether it still runs, and is not another one under its old number. One that has ended unreaped is not."""
    fields = _stat(process.pid)
    if not HAS_PROC:
        return _answers(process.pid)
    return fields is not None and int(fields[19]) == process.start and fields[0] not in (b"Z", b"X")


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _stat(pid: int) -> list[bytes] | None:
    """The fields after the name; the name may hold spaces and parentheses of its own, so count from the last one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 else None


def marked(node: str) -> Iterator[Marked]:
    """Every process whose environment says that a node of this name, or of this beginning, started it for a run."""
    for name in _numbers():
        try:
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                environment = file.read()
        except OSError:
            continue  # it has ended, or belongs to another user
        if b"HERDBEAT_NODE=" + node.encode() not in environment:
            continue
        found = _read_marks(int(name), environment)
        if found is not None and found.node.startswith(node):
            yield found


def _numbers() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _read_marks(pid: int, environment: bytes) -> Marked | None:
    entries = dict(entry.partition(b"=")[::2] for entry in environment.split(b"\0"))
    run, start = entries.get(b"HERDBEAT_RUN", b""), start_of(pid)
    if start is None:
        return None
    return Marked(Process(pid, start), entries.get(b"HERDBEAT_NODE", b"").decode("utf-8", "replace"), run.decode())


def uptime() -> float:
    """Seconds since boot, the same for every process; goes on while the machine sleeps, and so do leases."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def send(process: Process, number: int) -> None:
    """Signal the process if it is still the same one."""
    _send(process, number, os.kill)


def send_group(leader: Process, number: int) -> None:
    """Signal the whole group if its leader is still the same process."""
    _send(leader, number, os.killpg)


def _send(process: Process, number: int, how: Callable[[int, int], None]) -> None:
    if start_of(process.pid) != process.start:
        return
    try:
        how(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it ended just now, or became another user's: neither is ours any more


def end(processes: Iterable[Process], wait: float) -> int:
    """TERM to all, and KILL to those still there after the wait. Returns how many there were, when they are gone."""
    there = [process for process in processes if is_alive(process)]
    for process in there:
        send(process, signal.SIGTERM)
    stubborn = _left_after(there, wait)
    for process in stubborn:
        send(process, signal.SIGKILL)
    _left_after(stubborn, DYING)
    return len(there)


def _left_after(processes: list[Process], wait: float) -> list[Process]:
    until = uptime() + wait
    while (left := [process for process in processes if is_alive(process)]) and uptime() < until:
        time.sleep(POLL)
    return left
