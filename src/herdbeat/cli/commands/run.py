"""`herdbeat run`: a manual beat, and with --wait its output until it ends."""

import os
import time
from collections.abc import Iterable

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, open_fleet_for_change
from herdbeat.cli.fleet_handle import FleetHandle, choose_schedule
from herdbeat.cli.output.render import ErrorLine, Output
from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS, format_run_result, format_time
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.errors import Conflict, StoreUnavailable, UsageError, truncate_for_message
from herdbeat.service.commands.base import TriggeredBeat, TriggerSchedule, result_to_json
from herdbeat.service.queries.logs import RunOutputFollower
from herdbeat.service.queries.selectors import (
    find_latest_attempt,
    find_run,
    find_schedule,
    is_beat_open,
    split_selector,
)
from herdbeat.service.serialize import JsonObject, serialize_run

EXIT_REFUSED = 1
EXIT_RUN_FAILED = 5
START_POLL_INTERVAL_S = 0.02
START_TIMEOUT_S = 2.0
"""Seconds for the loop to take the beat up, so that the run can be named. It takes milliseconds."""

OUTPUT_POLL_INTERVAL_S = 0.1


def follow_run(context: Context, handle: FleetHandle, run: RunRecord, answer: JsonObject, *, is_json: bool) -> int:
    """Print the output until the run has ended, and put the result into `answer`. Ctrl+C stops this, not the run.

    Raises Conflict if no node is left that could end it.
    """
    output = RunOutputFollower(handle.require_reader(), handle.state_dir, run.id)

    def show(texts: Iterable[str]) -> None:
        for text in () if is_json else texts:
            context.terminal.print(f"  {printable(text)}")
        context.terminal.out.flush()

    ended = run
    while ended.status is RunStatus.RUNNING:
        show(output.poll())
        time.sleep(OUTPUT_POLL_INTERVAL_S)
        has_live_node = handle.holder_pid is not None  # first: a node that leaves has recorded its results before
        ended = _reload_run(handle, format_short_id(run.id))
        if ended.status is RunStatus.RUNNING and not has_live_node:
            raise node_lost_error(
                f"Run {format_short_id(run.id)} was interrupted. The next `herdbeat up` records that."
            )
    show(output.flush())
    answer["result"] = serialize_run(ended)
    if not is_json:
        context.terminal.print(_format_end(context, ended))
    return 0 if ended.status is RunStatus.SUCCEEDED else EXIT_RUN_FAILED


def node_lost_error(consequence: str) -> Conflict:
    return Conflict("The node stopped while this command was waiting.", hint=consequence)


def _reload_run(handle: FleetHandle, name: str) -> RunRecord:
    run = find_run(handle.require_reader(), name)
    if run is None:
        raise StoreUnavailable(
            f"The run {name} is no longer in the ledger.", hint="Its history has probably been deleted (retention)."
        )
    return run


def _format_end(context: Context, run: RunRecord) -> str:
    glyph, _, colour = RUN_STATUS_SYMBOLS[run.status]
    spent = f" in {format_elapsed(run.elapsed(run.finished_at))}" if run.finished_at else ""
    error = f"   {printable(run.error)}" if run.error else ""
    return f"{context.terminal.style(glyph, colour)} {format_run_result(run)}{spent}{error}"


def run_run(args: ParsedArgs, context: Context) -> Output:
    selector = _parse_selector(args)
    handle = open_fleet_for_change(args, context)
    record = choose_schedule(args, context, handle.require_reader(), selector)
    if args.has(flags.WAIT) and handle.holder_pid is None:
        where = "No node is running" if handle.is_shared else "The fleet is not running"
        raise Conflict(f"{where}, so --wait cannot be used.", hint="Start it with: herdbeat up")
    command = TriggerSchedule(
        schedule=record.id,
        queue=args.has(flags.QUEUE),
        prompt=read_prompt(args, context),
        input=read_file(args.value(flags.INPUT_FILE), context),
        reset=args.has(flags.RESET),
        reason=args.value(flags.REASON) or "",
    )
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    result = delivery.result
    if not result.success:
        return _refuse(handle, result)
    if delivery.has_live_node:
        return _start(args, context, handle, result)
    line = f"◷ {result.schedule}  is saved; it starts when the fleet runs: herdbeat up"
    return Output(json=lambda: result_to_json(result), lines=[line], is_compact=True)


def read_prompt(args: ParsedArgs, context: Context) -> str:
    """Return the prompt for this run; empty to use the schedule's. Raises UsageError."""
    text, path = args.value(flags.PROMPT), args.value(flags.PROMPT_FILE)
    if text is not None and path is not None:
        raise UsageError("--prompt and --prompt-file cannot be combined.", hint="Give the prompt once.")
    prompt = read_file(path, context) if text is None else text
    if (text is not None or path is not None) and not prompt.strip():
        raise UsageError("The prompt is empty.", hint="Leave the option out to use the schedule's prompt.")
    return prompt


def read_file(path: str | None, context: Context) -> str:
    """Return the content of a file, or of standard input for "-"; empty without a path. Raises UsageError."""
    if path is None:
        return ""
    try:
        if path == "-":
            return "" if context.stdin is None else context.stdin.read()
        # Not Path.expanduser: it raises for a user that does not exist.
        return (context.folder / os.path.expanduser(path)).read_text(encoding="utf-8")  # noqa: PTH111
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"{truncate_for_message(path, 200)} cannot be read: {why}.",
            hint="Name a text file, or - for standard input.",
        ) from error


def _parse_selector(args: ParsedArgs) -> str:
    target, name = split_selector(args.positionals[0])
    wanted = args.value(flags.SCHEDULE)
    if wanted is not None and name is not None:
        raise UsageError("TARGET/SCHEDULE and --schedule cannot be combined.", hint="Name the schedule once.")
    name = wanted or name
    return target if name is None else f"{target}/{name}"


def _refuse(handle: FleetHandle, result: TriggeredBeat) -> Output:
    why = f"{result.running} of {result.max_concurrent} running"
    if result.skip_reason is SkipReason.RATE_LIMITED:
        why = _describe_hold(handle, result)
    lines = [
        ErrorLine(f"– {result.schedule}  refused: {result.skip_reason} ({why})"),
        ErrorLine("  Queue it with --queue, or see: herdbeat status"),
    ]
    return Output(json=lambda: result_to_json(result), lines=lines, is_compact=True, exit_status=EXIT_REFUSED)


def _describe_hold(handle: FleetHandle, result: TriggeredBeat) -> str:
    """Return which account is held, and until when."""
    from herdbeat.service.queries.gates import find_hold_of  # noqa: PLC0415 -- loads the engine, for a rare answer

    reader = handle.require_reader()
    hold = find_hold_of(reader, find_schedule(reader, result.schedule), handle.now)
    if hold is None:
        return "its account was held a moment ago"
    return f"account {printable(hold.account)} is held until {format_time(hold.until, handle.now, handle.zone)}"


def _start(args: ParsedArgs, context: Context, handle: FleetHandle, result: TriggeredBeat) -> Output:
    is_json, waits = args.has(flags.JSON), args.has(flags.WAIT)
    run = _wait_for_run(handle, str(result.beat), None if waits else START_TIMEOUT_S)
    if waits and run is None:
        raise _explain_no_run(handle, result)
    answer = {**result_to_json(result), "run": None if run is None else format_short_id(run.id)}
    headline = _format_headline(context, handle, result, run)
    if run is None or not waits:
        return Output(json=lambda: answer, lines=[headline], is_compact=True)
    if not is_json:
        context.terminal.print(headline)
    status = follow_run(context, handle, run, answer, is_json=is_json)
    return Output(json=lambda: answer, is_compact=True, exit_status=status)


def _wait_for_run(handle: FleetHandle, beat: str, timeout_s: float | None) -> RunRecord | None:
    """The run that the loop starts for the beat; None if that takes longer than the timeout, or cannot happen."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        can_start = handle.holder_pid is not None and is_beat_open(handle.require_reader(), beat)
        found = find_latest_attempt(handle.require_reader(), beat)
        if found is not None or not can_start or (deadline is not None and time.monotonic() > deadline):
            return found
        time.sleep(START_POLL_INTERVAL_S)


def _explain_no_run(handle: FleetHandle, result: TriggeredBeat) -> Conflict:
    """Return why the beat has no run to wait for."""
    if is_beat_open(handle.require_reader(), str(result.beat)):
        return node_lost_error(f"{result.schedule} is saved; it starts when the fleet runs: herdbeat up")
    hint = f"See why: herdbeat explain {result.schedule}"
    return Conflict(f"{result.schedule} did not start: it was cancelled or skipped.", hint=hint)


def _format_headline(context: Context, handle: FleetHandle, result: TriggeredBeat, run: RunRecord | None) -> str:
    who = current_actor(context).name.partition(":")[2]
    next_run_note = ""
    if result.next_run_at is not None:
        next_run = format_time(result.next_run_at, handle.now, handle.zone)
        next_run_note = f"   (next regular run {next_run})"
    if run is None:
        waits_for = result.waits_for or "not started yet"
        return f"◷ {result.schedule}  queued: {waits_for}   manual by {who}{next_run_note}"
    mark = context.terminal.style("▶", "cyan")
    return f"{mark} {result.schedule}  {format_short_id(run.id)}   manual by {who}{next_run_note}"
