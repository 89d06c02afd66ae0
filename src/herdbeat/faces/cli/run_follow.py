"""`herdbeat run --wait`: the output of a run while it is written, and how it ended."""

import time
from typing import Any

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.errors import StoreUnavailable
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import RUN_STATUS_SYMBOLS, format_run_result
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.world import Context
from herdbeat.runners.log_reader import LogFollower, LogLine, RemoteLogFollower, find_log
from herdbeat.service.objects import serialize_run
from herdbeat.service.questions import find_run

EXIT_RUN_FAILED = 5
OUTPUT_POLL_INTERVAL_S = 0.1
POLLS_PER_LEDGER_READ = 10
"""Looks after which the ledger is asked for the words of a run on another node."""


def follow_run(context: Context, handle: FleetHandle, run: RunRecord, answer: dict[str, Any], *, is_json: bool) -> int:
    """Until the run has ended. Ctrl+C stops the watching, never the run."""
    output = _RunOutput(handle, run.id)
    ended = run
    while ended.status is RunStatus.RUNNING:
        _show_lines(context, output.poll(), is_json=is_json)
        time.sleep(OUTPUT_POLL_INTERVAL_S)
        ended = _reload_run(handle, run)
    _show_lines(context, [*output.poll(), *output.flush()], is_json=is_json)
    answer["result"] = serialize_run(ended)
    if not is_json:
        _show_end(context, ended)
    return 0 if ended.status is RunStatus.SUCCEEDED else EXIT_RUN_FAILED


class _RunOutput:
    """The log of a run, which is there only once the run has said something."""

    def __init__(self, handle: FleetHandle, run_id: int) -> None:
        self._handle = handle
        self._run_id = run_id
        self._follower: LogFollower | None = None
        self._elsewhere = RemoteLogFollower(lambda: handle.require_reader().run_output(run_id))
        self._looks = 0

    def poll(self) -> list[LogLine]:
        if self._follower is None:
            path = find_log(self._handle.state_dir, self._run_id)
            self._follower = None if path is None else LogFollower(path)
        if self._follower is not None:
            return list(self._follower.poll())
        self._looks += 1
        return list(self._elsewhere.poll()) if self._looks % POLLS_PER_LEDGER_READ == 0 else []

    def flush(self) -> list[LogLine]:
        """Asked when the run has ended: what it said on another node is in the ledger by then."""
        follower = self._follower or self._elsewhere
        return [*follower.poll(), *follower.flush()]


def _reload_run(handle: FleetHandle, run: RunRecord) -> RunRecord:
    found = find_run(handle.require_reader(), format_short_id(run.id))
    if found is None:
        raise StoreUnavailable(f"The run {format_short_id(run.id)} is no longer in the ledger.", hint="Was it pruned?")
    return found


def _show_lines(context: Context, lines: list[LogLine], *, is_json: bool) -> None:
    for line in [] if is_json else lines:
        context.terminal.print(f"  {printable(line.text)}")
    context.terminal.out.flush()


def _show_end(context: Context, run: RunRecord) -> None:
    glyph, _, colour = RUN_STATUS_SYMBOLS[run.status]
    spent = f" in {format_elapsed(run.elapsed(run.finished_at))}" if run.finished_at else ""
    error = f"   {printable(run.error)}" if run.error else ""
    context.terminal.print(f"{context.terminal.style(glyph, colour)} {format_run_result(run)}{spent}{error}")
