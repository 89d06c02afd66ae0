"""`herdbeat run`: a beat by hand, and if wanted its output until it ends."""

import json
import time
from typing import Any

from herdbeat.cli import spec as flags
from herdbeat.cli.actor import current_actor
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS, format_run_result, format_time
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.control_socket.client import NotRunning, send_request
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.errors import Conflict, StoreUnavailable, UsageError
from herdbeat.runners.run_log import LogFollower, LogLine, RemoteLogFollower, find_log
from herdbeat.service.commands.runs import trigger_offline
from herdbeat.service.queries.selectors import find_latest_attempt, find_run, split_selector
from herdbeat.service.serialize import serialize_run
from herdbeat.timestamps import parse_timestamp

# `herdbeat run --wait`: the output of a run while it is written, and how it ended.


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


EXIT_REFUSED = 1
START_POLL_INTERVAL_S = 0.02
START_TIMEOUT_S = 2.0
"""Seconds for the loop to take the beat up, so that the run can be named. It takes milliseconds."""


def run_now(args: ParsedArgs, context: Context) -> int:
    selector = _parse_selector(args)
    with open_fleet_handle(args, context) as handle:
        handle.require_reader()
        answer = _request_run(handle, selector, args, current_actor(context))
        if answer is None and handle.is_shared and handle.holder_pid is not None:
            queue = args.has(flags.QUEUE)
            answer = trigger_offline(handle.path, handle.now, selector, origin=current_actor(context), queue=queue)
        if answer is None:
            return _enqueue_offline(args, context, handle, selector)
        if not answer["success"]:
            return _show_refusal(args, context, answer)
        return _show_started(args, context, handle, answer)


def _parse_selector(args: ParsedArgs) -> str:
    target, name = split_selector(args.positionals[0])
    wanted = args.value(flags.SCHEDULE)
    if wanted is not None and name is not None:
        raise UsageError("TARGET/SCHEDULE and --schedule say the same thing.", hint="Name the schedule once.")
    name = wanted or name
    return target if name is None else f"{target}/{name}"


def _request_run(handle: FleetHandle, selector: str, args: ParsedArgs, origin: str) -> dict[str, Any] | None:
    """None if nothing runs here."""
    request = {"do": "run", "schedule": selector, "origin": origin, "queue": args.has(flags.QUEUE)}
    try:
        return send_request(handle.state_dir, request)
    except NotRunning:
        return None


def _enqueue_offline(args: ParsedArgs, context: Context, handle: FleetHandle, selector: str) -> int:
    if args.has(flags.WAIT):
        where = "No node runs this fleet" if handle.is_shared else "Nothing runs here"
        raise Conflict(f"{where}, so there is nothing to wait for.", hint="Start it with: herdbeat up")
    answer = trigger_offline(handle.path, handle.now, selector, origin=current_actor(context))
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(answer))
    else:
        context.terminal.print(f"◷ {answer['schedule']}  is written down and starts with the next: herdbeat up")
    return 0


def _show_refusal(args: ParsedArgs, context: Context, answer: dict[str, Any]) -> int:
    reason = answer["skip_reason"]
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(answer))
        return EXIT_REFUSED
    why = f"{answer['running']} of {answer['max_concurrent']} running"
    context.terminal.error(f"– {answer['schedule']}  refused: {reason} ({why})")
    context.terminal.error("  Let it wait for its turn with --queue, or see: herdbeat status")
    return EXIT_REFUSED


def _show_started(args: ParsedArgs, context: Context, handle: FleetHandle, answer: dict[str, Any]) -> int:
    is_json, waits = args.has(flags.JSON), args.has(flags.WAIT)
    found = _wait_for_run(handle, str(answer["beat"]), None if waits else START_TIMEOUT_S)
    answer["run"] = None if found is None else format_short_id(found.id)
    if not is_json:
        context.terminal.print(_format_headline(context, handle, answer))
        context.terminal.out.flush()
    status = follow_run(context, handle, found, answer, is_json=is_json) if waits and found is not None else 0
    if is_json:
        context.terminal.print(json.dumps(answer))
    return status


def _wait_for_run(handle: FleetHandle, beat: str, timeout_s: float | None) -> RunRecord | None:
    """The run that the loop makes of the beat. A queued one may wait longer than we do."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := find_latest_attempt(handle.require_reader(), beat)) is None:
        if (deadline is not None and time.monotonic() > deadline) or _has_no_live_node(handle):
            return None
        time.sleep(START_POLL_INTERVAL_S)
    return found


def _has_no_live_node(handle: FleetHandle) -> bool:
    if handle.is_shared:
        return handle.holder_pid is None
    try:
        send_request(handle.state_dir, {"do": "ping"})
    except NotRunning:
        return True
    return False


def _format_headline(context: Context, handle: FleetHandle, answer: dict[str, Any]) -> str:
    who = current_actor(context).partition(":")[2]
    following = answer["next_run_at"]
    next_run_note = f"   (the schedule keeps its next run {_format_time(following, handle)})" if following else ""
    if answer["run"] is None:
        waits_for = answer["waits_for"] or "not taken up yet"
        return f"◷ {answer['schedule']}  waits: {waits_for}   manual by {who}{next_run_note}"
    return (
        f"{context.terminal.style('▶', 'cyan')} {answer['schedule']}  {answer['run']}   manual by {who}{next_run_note}"
    )


def _format_time(moment: str, handle: FleetHandle) -> str:
    return format_time(parse_timestamp(moment), handle.now, handle.zone)
