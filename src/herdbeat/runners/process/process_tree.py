"""The processes of runs: found by their marks, their parents, their session or their control group, and signalled.

The reaper process imports this module, so it imports only cheap parts of the standard library. A process is identified
by its pid and its start time, because pids are reused.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

from herdbeat.domain.ids import parse_short_id
from herdbeat.platform import (
    MARK_BASE,
    ControlGroup,
    ProcessInfo,
    boot_time,
    is_same_start,
    iter_environments,
    list_children,
    list_processes,
    read_inherited_mark,
    read_process,
)

POLL_INTERVAL_S = 0.02
KILL_WAIT_S = 1.0
"""How long to wait for a killed process to end. The kernel may hold one in I/O for longer."""

GROUP_WAIT_S = 2.0
"""How long to try to remove the control groups of killed processes."""

UNKNOWN_START = 0
"""The start time of every process on a system that shows none."""


class ProcessIdentity(NamedTuple):
    pid: int
    start: int


class MarkedProcess(NamedTuple):
    """A process with the marks of the node and the run that it was started for."""

    process: ProcessIdentity
    node: str
    run: str


def identify(pid: int) -> ProcessIdentity:
    """Return the identity of a process that exists, for example a child that is not reaped yet."""
    return ProcessIdentity(pid, read_start_time(pid) or UNKNOWN_START)


def read_start_time(pid: int) -> int | None:
    """Return when the process started; None if there is no process with that pid."""
    process = read_process(pid)
    return None if process is None else process.start


def read_parent_pid(pid: int) -> int | None:
    process = read_process(pid)
    return None if process is None else process.parent


def is_alive(process: ProcessIdentity) -> bool:
    """True if the same process still runs. False for a zombie, and for another process that has reused its pid."""
    found = read_process(process.pid)
    return found is not None and found.is_running and _is_same(process, found)


def _is_same(process: ProcessIdentity, found: ProcessInfo) -> bool:
    return is_same_start(process.start, found.start)


def find_marked_processes(node: str) -> Iterator[MarkedProcess]:
    """Yield every process whose environment carries the mark of a node whose name begins with `node`."""
    for pid, environment in iter_environments():
        if b"HERDBEAT_NODE=" + node.encode() not in environment:
            continue
        entries = dict(entry.partition(b"=")[::2] for entry in environment.split(b"\0"))
        mark, start = entries.get(b"HERDBEAT_NODE", b"").decode("utf-8", "replace"), read_start_time(pid)
        if start is not None and mark.startswith(node):
            run = entries.get(b"HERDBEAT_RUN", b"").decode("utf-8", "replace")
            yield MarkedProcess(ProcessIdentity(pid, start), mark, run)


def control_group_name(node: str, run: str) -> str:
    return f"herdbeat-{node}-{run}"


class InheritedMark(NamedTuple):
    """What the processes of a run inherit, whatever they do: the last digits of two hashes and of the run's number."""

    state: int
    node: int
    run: int

    @classmethod
    def build(cls, node: str, run: str) -> "InheritedMark":
        state_hash, _, identity = node.partition(".")
        return cls(_digest(state_hash), _digest(identity), _run_digits(run))

    @classmethod
    def read(cls, pid: int) -> "InheritedMark | None":
        """Return the mark of a process; None if it has none, has ended, or belongs to another user."""
        number = read_inherited_mark(pid)
        if number is None:
            return None
        digits = number - MARK_BASE
        return cls(digits >> 2 * _MARK_BITS, digits >> _MARK_BITS & _MARK_LIMIT, digits & _MARK_LIMIT)

    def to_number(self) -> int:
        return MARK_BASE + (self.state << 2 * _MARK_BITS) + (self.node << _MARK_BITS) + self.run


_MARK_BITS = 20
_MARK_LIMIT = (1 << _MARK_BITS) - 1


def _digest(text: str) -> int:
    return crc32(text.encode()) & _MARK_LIMIT


def _run_digits(run: str) -> int:
    return (parse_short_id(run) or 0) & _MARK_LIMIT


def find_orphans(state_hash: str, runs: Collection[str] | None) -> Iterator[ProcessIdentity]:
    """Yield the processes of these runs, or of all, by the mark that they cannot lose, whose node is dead."""
    wanted = None if runs is None else set(map(_run_digits, runs))
    table = list_processes()
    living_nodes = {_digest(f"{process.pid}.{process.start}") for process in table}
    for process in table:
        mark = InheritedMark.read(process.pid)
        if mark is None or mark.state != _digest(state_hash) or mark.node in living_nodes:
            continue
        if wanted is None or mark.run in wanted:
            yield ProcessIdentity(process.pid, process.start)


def find_run_processes(
    node: str, runs: Mapping[str, ProcessIdentity | None], known: Iterable[ProcessIdentity] = ()
) -> list[ProcessInfo]:
    """Return the living processes of these runs, each with its leader if that is known. Blocks for milliseconds.

    A process may leave its group and its session, clear its environment, and lose its parent. It belongs to a run if it
    carries a mark of it, in its environment or inherited, if it is in the session of its leader or in its control
    group, or if one of its ancestors does. `known` are processes that were found before.
    """
    # The table is read last: what was started while the environments were read has its parents in it.
    found = {each.process.pid for each in find_marked_processes(node) if each.run in runs and each.node == node}
    table = {process.pid: process for process in list_processes()}
    leaders = {leader for leader in runs.values() if leader is not None}
    sessions = {leader.pid for leader in leaders if leader.pid in table and _is_same(leader, table[leader.pid])}
    found |= {pid for pid, process in table.items() if process.session in sessions}
    found |= _find_inherited(node, runs, table)
    found |= {each.pid for each in (*leaders, *known) if each.pid in table and _is_same(each, table[each.pid])}
    found |= {
        pid
        for group in ControlGroup.find_all(control_group_name(node, ""))
        if group.name.removeprefix(control_group_name(node, "")) in runs
        for pid in group.list_pids()
    }
    found = _with_descendants(found, table.values()) - {os.getpid()}
    return [table[pid] for pid in sorted(found) if pid in table and table[pid].is_running]


def _find_inherited(node: str, runs: Iterable[str], table: Mapping[int, ProcessInfo]) -> set[int]:
    marks = {InheritedMark.build(node, run) for run in runs}
    # A function of the user that starts a program while the node starts one may give it the mark. But such a program is
    # in the session of the node, and a program of ours never is.
    node_pid = node.split(".")[1:2]
    owner = table.get(int(node_pid[0])) if node_pid and node_pid[0].isdecimal() else None
    return {
        pid
        for pid, process in table.items()
        if InheritedMark.read(pid) in marks and (owner is None or process.session != owner.session)
    }


def find_descendants(pid: int) -> list[int]:
    """Return the pids of the process and of those that descend from it, as far as their parents live."""
    found = [pid]
    for each in found:  # grows while it is read
        found += list_children(each)
    return found


def _with_descendants(pids: set[int], table: Iterable[ProcessInfo]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process.pid)
    found, unvisited = set(pids), list(pids)
    while unvisited:
        new = [pid for pid in children.get(unvisited.pop(), ()) if pid not in found]
        found.update(new)
        unvisited.extend(new)
    return found


def send_signal(process: ProcessIdentity, number: int, kill: Callable[[int, int], None] = os.kill) -> None:
    """Signal the process, or with `os.killpg` the group that it leads, unless its pid belongs to another one now."""
    found = read_process(process.pid)
    if found is None or not _is_same(process, found):
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
    until = boot_time() + wait
    while (remaining := [process for process in processes if is_alive(process)]) and boot_time() < until:
        time.sleep(POLL_INTERVAL_S)
    return remaining


def remove_groups(groups: list[ControlGroup]) -> None:
    """Remove the control groups in which nothing runs. The kernel needs a moment after the last process of a group."""
    until = boot_time() + GROUP_WAIT_S
    while (groups := [group for group in groups if not group.remove()]) and boot_time() < until:
        groups = [group for group in groups if not any(map(_is_running, group.list_pids()))]
        time.sleep(POLL_INTERVAL_S)


def _is_running(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.is_running
