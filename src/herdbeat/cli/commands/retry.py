"""`herdbeat retry`: run again what failed, as one more attempt at the same beat."""

import json
import time
from typing import Any

from herdbeat.cli import spec as flags
from herdbeat.cli.actor import current_actor, parse_reason
from herdbeat.cli.commands.run import follow_run
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import dispatch_request, format_config_flag
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.errors import Conflict, UsageError
from herdbeat.service.commands.runs import retry_offline
from herdbeat.service.queries.selectors import find_latest_run, resolve_selector
from herdbeat.store.reader import Filter

EXIT_REFUSED = 1
START_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.02

RetryItem = dict[str, Any]


def run_retry(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        runs = _select_runs(args, handle)
        if args.has(flags.DRY_RUN):
            return _show_plan(args, context, runs)
        items, has_live_node = _execute(args, context, handle, runs)
        if args.has(flags.WAIT) and not has_live_node:
            raise Conflict("Nothing runs here: it is written down.", hint="It starts with the next: herdbeat up")
        status = _show_result(args, context, handle, items, has_live_node=has_live_node)
        return EXIT_REFUSED if any(not item["success"] for item in items) else status


def _select_runs(args: ParsedArgs, handle: FleetHandle) -> list[RunRecord]:
    """What each word means: that run, or the newest of each schedule."""
    runs: dict[int, RunRecord] = {}
    for word in args.positionals:
        found = resolve_selector(handle.require_reader(), word)
        for run in (
            [found.run] if found.run else [find_latest_run(handle.require_reader(), each) for each in found.schedules]
        ):
            runs[run.id] = run
    if args.has(flags.WAIT) and len(runs) > 1:
        raise UsageError("--wait follows one run.", hint="Name one run, or leave --wait out.")
    return list(runs.values())


def _execute(
    args: ParsedArgs, context: Context, handle: FleetHandle, runs: list[RunRecord]
) -> tuple[list[RetryItem], bool]:
    ids, who, reason = [run.id for run in runs], current_actor(context), parse_reason(args)
    force = args.has(flags.FORCE)
    answer, has_live_node = dispatch_request(
        handle,
        {"do": "retry", "runs": ids, "who": who, "reason": reason, "force": force},
        lambda: {"items": retry_offline(handle.path, handle.now, ids, who=who, reason=reason, force=force)},
    )
    items: list[RetryItem] = answer["items"]
    return items, has_live_node


def _show_result(
    args: ParsedArgs, context: Context, handle: FleetHandle, items: list[RetryItem], *, has_live_node: bool
) -> int:
    is_json, status = args.has(flags.JSON), 0
    for item in items:
        found = (
            _wait_for_attempt(handle, item, waits=args.has(flags.WAIT)) if item["success"] and has_live_node else None
        )
        item["run"] = None if found is None else format_short_id(found.id)
        if not is_json:
            context.terminal.print(_format_item(args, context, item, has_live_node=has_live_node))
            context.terminal.out.flush()
        if args.has(flags.WAIT) and found is not None:
            status = follow_run(context, handle, found, item, is_json=is_json)
    if is_json:
        context.terminal.print(json.dumps({"items": items}, indent=2, ensure_ascii=False))
    return status


def _wait_for_attempt(handle: FleetHandle, item: RetryItem, *, waits: bool) -> RunRecord | None:
    """The run that the loop makes of it. One that waits for room may take longer than we do."""
    deadline = None if waits else time.monotonic() + START_TIMEOUT_S
    beat = parse_short_id(item["beat"])
    while True:
        newest = next(iter(handle.require_reader().runs(Filter(beat=beat, limit=1))), None)
        if newest is not None and newest.attempt >= item["attempt"]:
            return newest
        if (deadline is not None and time.monotonic() > deadline) or handle.holder_pid is None:
            return None
        time.sleep(POLL_INTERVAL_S)


def _format_item(args: ParsedArgs, context: Context, item: RetryItem, *, has_live_node: bool) -> str:
    name = printable(item["schedule"])
    if not item["success"]:
        force_hint = "   Insist with --force" if item["refused"].startswith(("it succeeded", "it declined")) else ""
        return f"– {name}  {item['retries']} is not run again: {item['refused']}.{force_hint}"
    which = f"attempt {item['attempt']} at beat {item['beat']}, after {item['retries']}"
    if item["run"] is None:
        later = "waits for its turn" if has_live_node else "is written down and starts with the next: herdbeat up"
        return f"◷ {name}  {which} {later}   undo: herdbeat cancel {name}{format_config_flag(args)}"
    undo = f"herdbeat cancel {item['run']}{format_config_flag(args)}"
    return f"{context.terminal.style('▶', 'cyan')} {name}  {item['run']}   {which}   undo: {undo}"


def _show_plan(args: ParsedArgs, context: Context, runs: list[RunRecord]) -> int:
    rows = [
        [run.schedule, format_short_id(run.id), RUN_STATUS_SYMBOLS[run.status][1], str(run.attempt + 1)] for run in runs
    ]
    if args.has(flags.JSON):
        keys = ("schedule", "run", "status", "attempt")
        items = [dict(zip(keys, row, strict=True)) for row in rows]
        context.terminal.print(json.dumps({"what": "retry", "items": items}, indent=2, ensure_ascii=False))
        return 0
    for line in context.terminal.format_table([["SCHEDULE", "RUN", "ENDED", "ATTEMPT"], *rows], shrink=(0,)):
        context.terminal.print(line)
    context.terminal.info("Nothing was changed.")
    return 0
