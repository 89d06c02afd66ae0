"""What the kernel tells about processes: when one started, what marks it carries, how to end it and no other.

The guardian runs on this module alone, so it uses little of Python. A process is named by its pid and its start time
together, because a pid is used again. Where there is no /proc, start times are unknown and nothing is found.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

POLL_INTERVAL_S = 0.02
KILL_WAIT_S = 1.0
"""Seconds for a killed process to be gone; one that the kernel holds longer is not waited for."""

HAS_PROC = os.path.exists("/proc/self/stat")  # noqa: PTH110  pathlib would double the guardian's start
UNKNOWN_START = 0
"""The start time of a process on a system that does not tell."""


class ProcessIdentity(NamedTuple):
    pid: int
    start: int


class MarkedProcess(NamedTuple):
    """A process that was started for a run: by which node, and for which run."""

    process: ProcessIdentity
    node: str
    run: str


def read_start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if there is none of that pid."""
    if not HAS_PROC:
        return UNKNOWN_START
    fields = _read_stat(pid)
    return None if fields is None else int(fields[19])


def read_parent_pid(pid: int) -> int | None:
    fields = _read_stat(pid)
    return None if fields is None else int(fields[1])


def read_process_group(pid: int) -> int | None:
    fields = _read_stat(pid)
    return None if fields is None else int(fields[2])


def is_alive(process: ProcessIdentity) -> bool:
    """Whether it still runs, and is not another one under its old number. One that has ended unreaped is not."""
    fields = _read_stat(process.pid)
    if not HAS_PROC:
        return _responds_to_signal(process.pid)
    return fields is not None and int(fields[19]) == process.start and fields[0] not in (b"Z", b"X")


def _responds_to_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _read_stat(pid: int) -> list[bytes] | None:
    """The fields after the name; the name may hold spaces and parentheses of its own, so count from the last one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 else None


def find_marked_processes(node: str) -> Iterator[MarkedProcess]:
    """Every process whose environment says that a node of this name, or of this beginning, started it for a run."""
    for name in _list_pids():
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


def _list_pids() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _read_marks(pid: int, environment: bytes) -> MarkedProcess | None:
    entries = dict(entry.partition(b"=")[::2] for entry in environment.split(b"\0"))
    run, start = entries.get(b"HERDBEAT_RUN", b""), read_start_time(pid)
    if start is None:
        return None
    return MarkedProcess(
        ProcessIdentity(pid, start), entries.get(b"HERDBEAT_NODE", b"").decode("utf-8", "replace"), run.decode()
    )


def uptime() -> float:
    """Seconds since boot, the same for every process; goes on while the machine sleeps, and so do leases."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def send_signal(process: ProcessIdentity, number: int) -> None:
    """Signal the process if it is still the same one."""
    _send_if_same(process, number, os.kill)


def send_group_signal(leader: ProcessIdentity, number: int) -> None:
    """Signal the whole group if its leader is still the same process."""
    _send_if_same(leader, number, os.killpg)


def _send_if_same(process: ProcessIdentity, number: int, kill: Callable[[int, int], None]) -> None:
    if read_start_time(process.pid) != process.start:
        return
    try:
        kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it ended just now, or became another user's: neither is ours any more


def terminate_processes(processes: Iterable[ProcessIdentity], wait: float) -> int:
    """TERM to all, and KILL to those still there after the wait. Returns how many there were, when they are gone."""
    alive = [process for process in processes if is_alive(process)]
    for process in alive:
        send_signal(process, signal.SIGTERM)
    survivors = _wait_gone(alive, wait)
    for process in survivors:
        send_signal(process, signal.SIGKILL)
    _wait_gone(survivors, KILL_WAIT_S)
    return len(alive)


def _wait_gone(processes: list[ProcessIdentity], wait: float) -> list[ProcessIdentity]:
    until = uptime() + wait
    while (remaining := [process for process in processes if is_alive(process)]) and uptime() < until:
        time.sleep(POLL_INTERVAL_S)
    return remaining
