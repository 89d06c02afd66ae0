"""`herdbeat down`: ask the fleet that runs here to stop, and wait until it has."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from herdbeat.durations import parse_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.fleets import read
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.world import World
from herdbeat.faces.local.client import NobodyThere, ask
from herdbeat.store.lock import holder_of
from herdbeat.store.places import ledger_of, state_dir_of

TIMED_OUT = 124
MARGIN = 10.0
"""Seconds beyond the timeout of the runs: children are told to end first, and results are written down."""

LOOK = 0.05


def run(given: Given, world: World) -> int:
    _, fleet = read(given.value(flags.CONFIG), world)
    state_dir = state_dir_of(ledger_of(fleet))
    wanted = given.value(flags.TIMEOUT)
    timeout = parse_duration(wanted) if wanted else fleet.stop_timeout
    pid = holder_of(state_dir)
    if pid is None:
        return _end(given, world, None, "Nothing is running here.")
    is_forced = given.has(flags.FORCE)
    running = _request(state_dir, pid, timeout.total_seconds(), is_forced=is_forced)
    if running and not is_forced:
        world.terminal.remark(f"Stopping (pid {pid}): {counted(running, 'run')} may finish first.")
    if _is_gone(state_dir, MARGIN if is_forced else timeout.total_seconds() + MARGIN):
        cut_off = f" {counted(running, 'run')} cut off." if is_forced and running else ""
        return _end(given, world, pid, f"Stopped (pid {pid}).{cut_off}")
    if is_forced:
        return _kill(given, world, state_dir, pid)
    return _end(given, world, pid, f"Still running (pid {pid}). Cut it off with: herdbeat down --force", TIMED_OUT)


def _request(state_dir: Path, pid: int, timeout: float, *, is_forced: bool) -> int:
    """How many runs are going, as far as it can be known. Who does not answer gets the signal instead."""
    try:
        answer = ask(state_dir, {"do": "stop", "timeout": timeout, "force": is_forced})
    except NobodyThere:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return 0
    return int(answer["running"])


def _is_gone(state_dir: Path, seconds: float) -> bool:
    """Until nobody holds the lock any more: the kernel lets go of it when the process is gone."""
    deadline = time.monotonic() + seconds
    while holder_of(state_dir) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK)
    return True


def _kill(given: Given, world: World, state_dir: Path, pid: int) -> int:
    """The last resort, for a process that is stopped or hangs. The next start sweeps what it leaves."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if _is_gone(state_dir, MARGIN):
        return _end(given, world, pid, f"Killed (pid {pid}): it did not answer. Its runs are interrupted.")
    return _end(given, world, pid, f"Process {pid} cannot be stopped by this user.", 1)


def _end(given: Given, world: World, pid: int | None, said: str, status: int = 0) -> int:
    if given.has(flags.JSON):
        answer: dict[str, Any] = {"pid": pid, "stopped": status == 0, "text": said}
        world.terminal.say(json.dumps(answer))
    elif status:
        world.terminal.complain(said)
    else:
        world.terminal.remark(said)
    return status
