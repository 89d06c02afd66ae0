"""`herdbeat down`: ask the fleet that runs here to stop, and wait until it has."""

import os
import platform
import signal
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta

from herdbeat.bootstrap.handle import build_handle, find_local_pid, request_stop
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, load_fleet_files
from herdbeat.cli.output.render import ErrorLine, Notice, Output
from herdbeat.cli.output.terminal import format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.durations import parse_duration
from herdbeat.errors import StoreUnavailable
from herdbeat.service.queries.nodes import RunsAfterStop, find_runs_after_stop

EXIT_CUT_OFF = 1
EXIT_TIMED_OUT = 124
MAX_NAMED_RUNS = 3
STOP_MARGIN_S = 10.0
"""Seconds beyond the timeout of the runs, for their programs to end and their results to be written."""

CLOCK_MARGIN = timedelta(seconds=1)
"""How far the time of a shared ledger may be off between this command and the node."""

POLL_INTERVAL_S = 0.05
_NO_RUNS = RunsAfterStop(cut_off=(), on_engines=())


def run_down(args: ParsedArgs, context: Context) -> Output:
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    handle = build_handle(fleet, context.clock)
    wanted, is_forced = args.value(flags.TIMEOUT), args.has(flags.FORCE)
    timeout = parse_duration(wanted) if wanted else fleet.stop_timeout
    pid = find_local_pid(handle.state_dir)  # whichever ledger it runs: the files may name another one by now
    if pid is None:
        return _build_output(None, "The fleet is not running.")
    asked_at = _ledger_time(handle)
    running = request_stop(handle.state_dir, timeout, force=is_forced)
    if running is None:
        _send_signal(pid, signal.SIGTERM)  # it does not answer
    if running and not is_forced:
        context.terminal.info(f"Stopping (pid {pid}): waiting for {format_count(running, 'active run')} to finish.")
    if _wait_until_stopped(handle, STOP_MARGIN_S if is_forced else timeout.total_seconds() + STOP_MARGIN_S):
        return _report_stopped(handle, pid, asked_at, is_forced=is_forced)
    if not is_forced:
        message = f"Still running (pid {pid}). Stop it immediately with: herdbeat down --force"
        return _build_output(pid, message, EXIT_TIMED_OUT)
    # The last resort, for a process that is stopped or hangs. The next start sweeps what it leaves.
    _send_signal(pid, signal.SIGKILL)
    if _wait_until_stopped(handle, STOP_MARGIN_S):
        return _build_output(pid, f"Killed (pid {pid}): it did not respond. Its runs were interrupted.")
    return _build_output(pid, f"Process {pid} could not be stopped. Check that you are its owner.", 1)


def _ledger_time(handle: FleetHandle) -> datetime:
    """A database that does not answer must not keep a node from being stopped."""
    try:
        return handle.use_ledger_clock().now
    except StoreUnavailable:
        return handle.now


def _send_signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_until_stopped(handle: FleetHandle, seconds: float) -> bool:
    """Whether the lock is released in time: the kernel does so when the process is gone."""
    deadline = time.monotonic() + seconds
    while find_local_pid(handle.state_dir) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


def _report_stopped(handle: FleetHandle, pid: int, asked_at: datetime, *, is_forced: bool) -> Output:
    """Name the runs that were cut off. Without --force nobody asked for that, so it is no success."""
    try:
        with closing(handle.open_reader()) as reader:
            runs = find_runs_after_stop(reader, platform.node(), pid, asked_at - CLOCK_MARGIN)
    except StoreUnavailable as error:
        message = f"Stopped (pid {pid}). It is not known whether runs were interrupted: {error.message}"
        return _build_output(pid, message, EXIT_CUT_OFF, is_stopped=True)
    message = f"Stopped (pid {pid})."
    if runs.cut_off:
        message += f" {format_count(len(runs.cut_off), 'run')} interrupted: {_name_runs(runs.cut_off)}."
    if runs.on_engines:
        names, go_on = _name_runs(runs.on_engines), "continues" if len(runs.on_engines) == 1 else "continue"
        message += (
            f" {format_count(len(runs.on_engines), 'run')} {go_on} elsewhere, and the next start follows: {names}."
        )
    status = EXIT_CUT_OFF if runs.cut_off and not is_forced else 0
    return _build_output(pid, message, status, is_stopped=True, runs=runs)


def _name_runs(runs: Sequence[RunRecord]) -> str:
    more = f" and {len(runs) - MAX_NAMED_RUNS} more" if len(runs) > MAX_NAMED_RUNS else ""
    return ", ".join(f"{run.schedule} {format_short_id(run.id)}" for run in runs[:MAX_NAMED_RUNS]) + more


def _build_output(
    pid: int | None,
    message: str,
    status: int = 0,
    *,
    is_stopped: bool | None = None,
    runs: RunsAfterStop = _NO_RUNS,
) -> Output:
    """Without `is_stopped` the exit status says whether it has stopped."""
    stopped = status == 0 if is_stopped is None else is_stopped
    cut_off, on_engines = ([format_short_id(run.id) for run in each] for each in (runs.cut_off, runs.on_engines))
    return Output(
        json=lambda: {"pid": pid, "stopped": stopped, "cut_off": cut_off, "on_engines": on_engines, "text": message},
        lines=[ErrorLine(message) if status else Notice(message)],
        is_compact=True,
        exit_status=status,
    )
