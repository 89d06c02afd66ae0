"""`herdbeat down`: ask the fleet that runs here to stop, and wait until it has."""

import os
import signal
import time
from contextlib import suppress

from herdbeat.bootstrap.handle import build_handle, request_stop
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, load_fleet_files
from herdbeat.cli.output.render import ErrorLine, Notice, Output
from herdbeat.cli.output.terminal import format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.durations import parse_duration

EXIT_TIMED_OUT = 124
STOP_MARGIN_S = 10.0
"""Seconds beyond the timeout of the runs, for their programs to end and their results to be written."""

POLL_INTERVAL_S = 0.05


def run_down(args: ParsedArgs, context: Context) -> Output:
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    handle = build_handle(fleet, context.clock)
    wanted, is_forced = args.value(flags.TIMEOUT), args.has(flags.FORCE)
    timeout = parse_duration(wanted) if wanted else fleet.stop_timeout
    pid = handle.local_pid
    if pid is None:
        return _build_output(None, "Nothing is running here.")
    running = request_stop(handle.state_dir, timeout, force=is_forced)
    if running is None:
        _send_signal(pid, signal.SIGTERM)  # it does not answer
    if running and not is_forced:
        context.terminal.info(f"Stopping (pid {pid}): {format_count(running, 'run')} may finish first.")
    if _wait_until_stopped(handle, STOP_MARGIN_S if is_forced else timeout.total_seconds() + STOP_MARGIN_S):
        cut_off = f" {format_count(running, 'run')} cut off." if is_forced and running else ""
        return _build_output(pid, f"Stopped (pid {pid}).{cut_off}")
    if not is_forced:
        message = f"Still running (pid {pid}). Cut it off with: herdbeat down --force"
        return _build_output(pid, message, EXIT_TIMED_OUT)
    # The last resort, for a process that is stopped or hangs. The next start sweeps what it leaves.
    _send_signal(pid, signal.SIGKILL)
    if _wait_until_stopped(handle, STOP_MARGIN_S):
        return _build_output(pid, f"Killed (pid {pid}): it did not answer. Its runs are interrupted.")
    return _build_output(pid, f"Process {pid} cannot be stopped by this user.", 1)


def _send_signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_until_stopped(handle: FleetHandle, seconds: float) -> bool:
    """Whether the lock is released in time: the kernel does so when the process is gone."""
    deadline = time.monotonic() + seconds
    while handle.local_pid is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


def _build_output(pid: int | None, message: str, status: int = 0) -> Output:
    line = ErrorLine(message) if status else Notice(message)
    data = {"pid": pid, "stopped": status == 0, "text": message}
    return Output(json=lambda: data, lines=[line], is_compact=True, exit_status=status)
