"""Reads /proc: when a process started, which marks it carries, and how to signal it and no other process.

The reaper process imports only this module, so it imports only cheap parts of the standard library. A process is
identified by its pid and its start time, because pids are reused. Without /proc, start times are unknown and no marked
processes are found.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

POLL_INTERVAL_S = 0.02
KILL_WAIT_S = 1.0
"""How long to wait for a killed process to end. The kernel may hold one in I/O for longer."""

HAS_PROC = os.path.exists("/proc/self/stat")  # noqa: PTH110  importing pathlib would double the reaper's start time
UNKNOWN_START = 0
"""The start time of every process on a system without /proc."""


class ProcessIdentity(NamedTuple):
    pid: int
    start: int


class MarkedProcess(NamedTuple):
    """A process with the marks of the node and the run that it was started for."""

    process: ProcessIdentity
    node: str
    run: str


def read_start_time(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if there is no process with that pid."""
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
    """True if the same process still runs. False for a zombie, and for another process that has reused its pid."""
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
    """Return the fields after the name, which may contain spaces and parentheses: they begin after the last ")"."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 else None


def find_marked_processes(node: str) -> Iterator[MarkedProcess]:
    """Yield every process whose environment carries the mark of a node whose name begins with `node`."""
    for name in _list_pids():
        try:
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                environment = file.read()
        except OSError:
            continue  # it has ended, or belongs to another user
        if b"HERDBEAT_NODE=" + node.encode() not in environment:
            continue
        entries = dict(entry.partition(b"=")[::2] for entry in environment.split(b"\0"))
        mark, start = entries.get(b"HERDBEAT_NODE", b"").decode("utf-8", "replace"), read_start_time(int(name))
        if start is not None and mark.startswith(node):
            run = entries.get(b"HERDBEAT_RUN", b"").decode()
            yield MarkedProcess(ProcessIdentity(int(name), start), mark, run)


def _list_pids() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def uptime() -> float:
    """Return the seconds since boot, by a clock that all processes share and that does not stop in sleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def send_signal(process: ProcessIdentity, number: int, kill: Callable[[int, int], None] = os.kill) -> None:
    """Signal the process, or with `os.killpg` the group that it leads, unless its pid belongs to another one now."""
    if read_start_time(process.pid) != process.start:
        return
    try:
        kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it has just ended, or changed its user: neither can be signalled


def terminate_processes(processes: Iterable[ProcessIdentity], wait: float) -> int:
    """Send TERM, and KILL to processes that are still alive after `wait` seconds. Returns how many were alive."""
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
