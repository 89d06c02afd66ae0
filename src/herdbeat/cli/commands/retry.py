"""`herdbeat retry`: retry failed runs, as another attempt at the same beat."""

import time
from itertools import chain

from herdbeat.cli import spec as flags
from herdbeat.cli.commands.run import follow_run, node_lost_error
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, format_config_flag, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, is_cut_off, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.errors import Conflict, UsageError
from herdbeat.service.commands.base import RetriedRun, RetriedRuns, RetryRuns, result_to_json
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.queries.selectors import find_latest_attempt, find_latest_run, resolve_selector
from herdbeat.service.serialize import JsonObject

EXIT_REFUSED = 1
START_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.02


def run_retry(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    runs = _select_runs(args, handle)
    for run in runs:
        if is_cut_off(handle, run):
            raise Conflict(
                f"{printable(run.schedule)}: run {format_short_id(run.id)} was cut off, because its node died.",
                hint="The next start records it as interrupted: herdbeat up. Retry it then.",
            )
    if args.has(flags.DRY_RUN):
        return _preview(context, runs)
    command = RetryRuns(runs=tuple(run.id for run in runs), reason=parse_reason(args), force=args.has(flags.FORCE))
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    if args.has(flags.WAIT) and not delivery.has_live_node:
        raise Conflict(
            "The fleet is not running; the retry is saved.", hint="It starts when the fleet runs: herdbeat up"
        )
    return _show_result(args, context, handle, delivery)


def _select_runs(args: ParsedArgs, handle: FleetHandle) -> list[RunRecord]:
    """What each word means: that run, or the newest of each schedule."""
    reader = handle.require_reader()
    runs: dict[int, RunRecord] = {}
    for word in args.positionals:
        match = resolve_selector(reader, word)
        selected = [match.run] if match.run else [find_latest_run(reader, each) for each in match.schedules]
        runs |= {run.id: run for run in selected}
    if args.has(flags.WAIT) and len(runs) > 1:
        raise UsageError("--wait can follow only one run.", hint="Name one run, or omit --wait.")
    return list(runs.values())


def _show_result(args: ParsedArgs, context: Context, handle: FleetHandle, delivery: Delivery[RetriedRuns]) -> Output:
    """Print each item once its attempt has begun, and return the JSON of all."""
    is_json, waits, has_live_node = args.has(flags.JSON), args.has(flags.WAIT), delivery.has_live_node
    status = 0
    answers: list[JsonObject] = []
    for item in delivery.result.items:
        run = _wait_for_attempt(handle, item, waits=waits) if item.success and has_live_node else None
        if run is None and waits and item.success:
            raise node_lost_error(f"{item.schedule} is saved; it starts when the fleet runs: herdbeat up")
        answer = {**result_to_json(item), "run": None if run is None else format_short_id(run.id)}
        answers.append(answer)
        if not is_json:
            context.terminal.print(_format_item(args, context, item, run, has_live_node=has_live_node))
            context.terminal.out.flush()
        if waits and run is not None:
            status = follow_run(context, handle, run, answer, is_json=is_json)
    has_refused = any(not item.success for item in delivery.result.items)
    return Output(json=lambda: {"items": answers}, exit_status=EXIT_REFUSED if has_refused else status)


def _wait_for_attempt(handle: FleetHandle, item: RetriedRun, *, waits: bool) -> RunRecord | None:
    """The run that the loop starts for it; None if that takes longer than START_TIMEOUT_S, as without room."""
    deadline = None if waits else time.monotonic() + START_TIMEOUT_S
    while True:
        newest = find_latest_attempt(handle.require_reader(), item.beat)
        if newest is not None and newest.attempt >= (item.attempt or 0):
            return newest
        if (deadline is not None and time.monotonic() > deadline) or handle.holder_pid is None:
            return None
        time.sleep(POLL_INTERVAL_S)


def _format_item(
    args: ParsedArgs, context: Context, item: RetriedRun, run: RunRecord | None, *, has_live_node: bool
) -> str:
    name = printable(item.schedule)
    if not item.success:
        force_hint = "   Retry anyway with --force" if item.refused.startswith(("it succeeded", "it declined")) else ""
        return f"– {name}  {item.retries} was not retried: {item.refused}.{force_hint}"
    which = f"attempt {item.attempt} at beat {item.beat}, after {item.retries}"
    if run is None:
        later = "is queued" if has_live_node else "is saved; it starts when the fleet runs: herdbeat up"
        return f"◷ {name}  {which} {later}   undo: herdbeat cancel {name}{format_config_flag(args)}"
    run_name = format_short_id(run.id)
    undo = f"herdbeat cancel {run_name}{format_config_flag(args)}"
    return f"{context.terminal.style('▶', 'cyan')} {name}  {run_name}   {which}   undo: {undo}"


def _preview(context: Context, runs: list[RunRecord]) -> Output:
    rows = [
        [run.schedule, format_short_id(run.id), RUN_STATUS_SYMBOLS[run.status][1], str(run.attempt + 1)] for run in runs
    ]
    items = [dict(zip(("schedule", "run", "status", "attempt"), row, strict=True)) for row in rows]
    table = context.terminal.format_table([["SCHEDULE", "RUN", "ENDED", "ATTEMPT"], *rows], shrink=(0,))
    return Output(json=lambda: {"what": "retry", "items": items}, lines=chain(table, [Notice("Nothing was changed.")]))
