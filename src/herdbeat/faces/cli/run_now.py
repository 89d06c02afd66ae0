"""`herdbeat run`: a beat by hand, and if wanted its output until it ends."""

import json
import time
from typing import Any

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.errors import Conflict, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.ledger import FleetHandle, open_fleet_handle
from herdbeat.faces.cli.marks import format_time
from herdbeat.faces.cli.person import current_actor
from herdbeat.faces.cli.run_follow import follow_run
from herdbeat.faces.cli.world import Context
from herdbeat.faces.local.client import NotRunning, send_request
from herdbeat.moments import parse_timestamp
from herdbeat.service.firing import trigger_offline
from herdbeat.service.questions import find_latest_attempt
from herdbeat.service.selecting import split_selector

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
