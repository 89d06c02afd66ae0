"""`herdbeat down`: ask the fleet that runs here to stop, and wait until it has."""

import json
import os
import signal
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from herdbeat.bootstrap.handle import request_stop
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, build_handle, load_fleet_files
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.durations import parse_duration

EXIT_TIMED_OUT = 124
STOP_MARGIN_S = 10.0
"""Seconds beyond the timeout of the runs, for their programs to end and their results to be written."""

POLL_INTERVAL_S = 0.05


def run_down(args: ParsedArgs, context: Context) -> int:
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    handle = build_handle(fleet, context)
    state_dir = handle.state_dir
    wanted = args.value(flags.TIMEOUT)
    timeout = parse_duration(wanted) if wanted else fleet.stop_timeout
    pid = handle.local_pid
    if pid is None:
        return _report_result(args, context, None, "Nothing is running here.")
    is_forced = args.has(flags.FORCE)
    running = _request_stop(state_dir, pid, timeout, is_forced=is_forced)
    if running and not is_forced:
        context.terminal.info(f"Stopping (pid {pid}): {format_count(running, 'run')} may finish first.")
    if _wait_until_stopped(handle, STOP_MARGIN_S if is_forced else timeout.total_seconds() + STOP_MARGIN_S):
        cut_off = f" {format_count(running, 'run')} cut off." if is_forced and running else ""
        return _report_result(args, context, pid, f"Stopped (pid {pid}).{cut_off}")
    if is_forced:
        return _kill_process(args, context, handle, pid)
    return _report_result(
        args, context, pid, f"Still running (pid {pid}). Cut it off with: herdbeat down --force", EXIT_TIMED_OUT
    )


def _request_stop(state_dir: Path, pid: int, timeout: timedelta, *, is_forced: bool) -> int:
    """How many runs are going, as far as that is known. A process that does not answer gets the signal instead."""
    running = request_stop(state_dir, timeout, force=is_forced)
    if running is not None:
        return running
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return 0


def _wait_until_stopped(handle: FleetHandle, seconds: float) -> bool:
    """Whether the lock is released in time: the kernel does so when the process is gone."""
    deadline = time.monotonic() + seconds
    while handle.local_pid is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


def _kill_process(args: ParsedArgs, context: Context, handle: FleetHandle, pid: int) -> int:
    """The last resort, for a process that is stopped or hangs. The next start sweeps what it leaves."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if _wait_until_stopped(handle, STOP_MARGIN_S):
        return _report_result(args, context, pid, f"Killed (pid {pid}): it did not answer. Its runs are interrupted.")
    return _report_result(args, context, pid, f"Process {pid} cannot be stopped by this user.", 1)


def _report_result(args: ParsedArgs, context: Context, pid: int | None, message: str, status: int = 0) -> int:
    if args.has(flags.JSON):
        context.terminal.print(json.dumps({"pid": pid, "stopped": status == 0, "text": message}))
    elif status:
        context.terminal.error(message)
    else:
        context.terminal.info(message)
    return status
