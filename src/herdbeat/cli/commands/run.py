"""`herdbeat run`: a beat by hand, and if wanted its output until it ends."""

import json
import time

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS, format_run_result, format_time
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.errors import Conflict, StoreUnavailable, UsageError
from herdbeat.runners.run_log import LogFollower, LogLine, RemoteLogFollower, find_log
from herdbeat.service.commands.base import TriggeredBeat, TriggerSchedule, result_to_json
from herdbeat.service.queries.selectors import find_latest_attempt, find_run, find_schedule, split_selector
from herdbeat.service.serialize import JsonObject, serialize_run

EXIT_REFUSED = 1
EXIT_RUN_FAILED = 5
START_POLL_INTERVAL_S = 0.02
START_TIMEOUT_S = 2.0
"""Seconds for the loop to take the beat up, so that the run can be named. It takes milliseconds."""

OUTPUT_POLL_INTERVAL_S = 0.1
POLLS_PER_LEDGER_READ = 10
"""Polls between two reads of the ledger for the output of a run on another node."""


def follow_run(context: Context, handle: FleetHandle, run: RunRecord, answer: JsonObject, *, is_json: bool) -> int:
    """Print the output until the run has ended, and put the result into `answer`. Ctrl+C stops this, not the run."""
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


def run_run(args: ParsedArgs, context: Context) -> int:
    selector = _parse_selector(args)
    with open_fleet_handle(args, context) as handle:
        record = find_schedule(handle.require_reader(), selector)
        if args.has(flags.WAIT) and handle.holder_pid is None:
            where = "No node runs this fleet" if handle.is_shared else "Nothing runs here"
            raise Conflict(f"{where}, so there is nothing to wait for.", hint="Start it with: herdbeat up")
        command = TriggerSchedule(schedule=record.id, queue=args.has(flags.QUEUE))
        delivery = handle.dispatcher.deliver(current_actor(context), command)
        if not delivery.result.success:
            return _show_refusal(args, context, delivery.result)
        if not delivery.has_live_node:
            return _show_stored(args, context, delivery.result)
        return _show_started(args, context, handle, delivery.result)


def _parse_selector(args: ParsedArgs) -> str:
    target, name = split_selector(args.positionals[0])
    wanted = args.value(flags.SCHEDULE)
    if wanted is not None and name is not None:
        raise UsageError("TARGET/SCHEDULE and --schedule say the same thing.", hint="Name the schedule once.")
    name = wanted or name
    return target if name is None else f"{target}/{name}"


def _show_stored(args: ParsedArgs, context: Context, result: TriggeredBeat) -> int:
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(result_to_json(result)))
    else:
        context.terminal.print(f"◷ {result.schedule}  is written down and starts with the next: herdbeat up")
    return 0


def _show_refusal(args: ParsedArgs, context: Context, result: TriggeredBeat) -> int:
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(result_to_json(result)))
        return EXIT_REFUSED
    why = f"{result.running} of {result.max_concurrent} running"
    context.terminal.error(f"– {result.schedule}  refused: {result.skip_reason} ({why})")
    context.terminal.error("  Let it wait for its turn with --queue, or see: herdbeat status")
    return EXIT_REFUSED


def _show_started(args: ParsedArgs, context: Context, handle: FleetHandle, result: TriggeredBeat) -> int:
    is_json, waits = args.has(flags.JSON), args.has(flags.WAIT)
    run = _wait_for_run(handle, str(result.beat), None if waits else START_TIMEOUT_S)
    answer = {**result_to_json(result), "run": None if run is None else format_short_id(run.id)}
    if not is_json:
        context.terminal.print(_format_headline(context, handle, result, run))
        context.terminal.out.flush()
    status = follow_run(context, handle, run, answer, is_json=is_json) if waits and run is not None else 0
    if is_json:
        context.terminal.print(json.dumps(answer))
    return status


def _wait_for_run(handle: FleetHandle, beat: str, timeout_s: float | None) -> RunRecord | None:
    """The run that the loop starts for the beat; None if that takes longer than the timeout."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := find_latest_attempt(handle.require_reader(), beat)) is None:
        if (deadline is not None and time.monotonic() > deadline) or not handle.is_running:
            return None
        time.sleep(START_POLL_INTERVAL_S)
    return found


def _format_headline(context: Context, handle: FleetHandle, result: TriggeredBeat, run: RunRecord | None) -> str:
    who = current_actor(context).name.partition(":")[2]
    next_run_note = ""
    if result.next_run_at is not None:
        next_run = format_time(result.next_run_at, handle.now, handle.zone)
        next_run_note = f"   (the schedule keeps its next run {next_run})"
    if run is None:
        waits_for = result.waits_for or "not taken up yet"
        return f"◷ {result.schedule}  waits: {waits_for}   manual by {who}{next_run_note}"
    mark = context.terminal.style("▶", "cyan")
    return f"{mark} {result.schedule}  {format_short_id(run.id)}   manual by {who}{next_run_note}"
