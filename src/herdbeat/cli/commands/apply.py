"""`herdbeat apply`: the plan, and then the doing. With --dry-run the plan alone, which writes nothing at all."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdbeat.bootstrap.config import load_config
from herdbeat.cli import spec as flags
from herdbeat.cli.actor import current_actor
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import describe_effect, dispatch_request
from herdbeat.cli.fleet_handle import FleetHandle, use_ledger_clock
from herdbeat.cli.output.errors import show_error
from herdbeat.cli.output.plan import format_plan, summarize_plan
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.output.time_parse import parse_zone_flags
from herdbeat.cli.parser import ParsedArgs
from herdbeat.config import find_config
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, UsageError
from herdbeat.scheduler.apply.plan import ApplyPlan
from herdbeat.service.commands.fleet import (
    PARTIAL_FILE_KINDS,
    apply_offline,
    build_partial_fleet,
    preview_apply,
    read_stored_fleet,
    require_valid_fleet,
    serialize_apply_result,
    serialize_plan,
)
from herdbeat.store.location import store_location

EXIT_DECLINED = 1
EXIT_CHANGES_PENDING = 6
"""What --exit-code answers if there is something to do."""

_UP_TO_DATE = "The fleet is as the files say. Nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """What is to be applied, to which ledger. A part removes nothing."""

    fleet: Fleet
    handle: FleetHandle
    file: Path
    is_whole: bool


def run_apply(args: ParsedArgs, context: Context) -> int:
    """Files with a mistake change nothing, and every mistake is told."""
    try:
        apply_request = _load_request(args, context)
    except ConfigError as error:
        show_error(context.terminal, error, as_json=args.has(flags.JSON))
        context.terminal.info("Nothing was changed; a fleet that runs keeps the last good configuration.")
        return error.exit_status
    plan = preview_apply(
        apply_request.handle.path, apply_request.fleet, apply_request.handle.now, is_whole=apply_request.is_whole
    )
    is_json = args.has(flags.JSON)
    if not is_json:
        for line in format_plan(context.terminal, plan, apply_request.handle.now, apply_request.handle.zone):
            context.terminal.print(line)
    if args.has(flags.DRY_RUN):
        return _show_dry_run(args, context, plan, is_json=is_json)
    if not _confirm_removals(args, context, plan):
        context.terminal.info("Nothing was changed.")
        return EXIT_DECLINED
    done, has_live_node = _apply(context, apply_request)
    if is_json:
        answer = {**serialize_plan(plan), "applied": True, "served": has_live_node}
        context.terminal.print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        context.terminal.info(_describe_result(plan, done, apply_request.handle))
    return 0


def _load_request(args: ParsedArgs, context: Context) -> ApplyRequest:
    word, option = args.positional(0), args.value(flags.CONFIG)
    reading = load_config(word or option, context.environ, context.folder)
    is_part = word is not None and reading.kind in PARTIAL_FILE_KINDS
    if word is not None and option is not None and not is_part:
        raise UsageError("PATH and --config say the same thing.", hint="Give the path once.")
    whole = require_valid_fleet(load_config(option, context.environ, context.folder) if is_part else reading)
    path = store_location(whole)
    fleet = build_partial_fleet(whole, reading, read_stored_fleet(path)) if is_part else whole
    handle = FleetHandle(
        name=whole.name,
        path=path,
        now=context.clock.now(),
        clock=context.clock,
        zone=parse_zone_flags(args) or whole.zone,
        reader=None,
        load_fleet=lambda: whole,
    )
    named = word or option
    file = find_config(context.folder, context.environ, None if named is None else Path(named))
    assert file is not None, "it was read a moment ago"
    handle = use_ledger_clock(handle, context)
    return ApplyRequest(fleet=fleet, handle=handle, file=file.absolute(), is_whole=not is_part)


def _apply(context: Context, apply_request: ApplyRequest) -> tuple[dict[str, Any], bool]:
    who = current_actor(context)
    request = {"do": "apply", "path": os.fspath(apply_request.file), "who": who}

    def offline() -> dict[str, Any]:
        handle = apply_request.handle
        done = apply_offline(handle.path, apply_request.fleet, handle.now, who, is_whole=apply_request.is_whole)
        return serialize_apply_result(done)

    return dispatch_request(apply_request.handle, request, offline)


def _confirm_removals(args: ParsedArgs, context: Context, plan: ApplyPlan) -> bool:
    """Asked where somebody sits and something goes away. A pipeline has said what it wants by its files."""
    removed = plan.count(ChangeKind.REMOVE)
    if not removed or args.has(flags.YES) or not context.is_interactive or context.stdin is None:
        return True
    context.terminal.err.write(f"Removes {format_count(removed, 'schedule')}; history stays. Continue? [y/N] ")
    context.terminal.err.flush()
    return context.stdin.readline().strip().lower() in ("y", "yes")


def _show_dry_run(args: ParsedArgs, context: Context, plan: ApplyPlan, *, is_json: bool) -> int:
    if is_json:
        answer = {**serialize_plan(plan), "applied": False}
        context.terminal.print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        context.terminal.info(f"{summarize_plan(plan, 'to')}  Nothing was changed." if plan.items else _UP_TO_DATE)
    return EXIT_CHANGES_PENDING if plan.items and args.has(flags.EXIT_CODE) else 0


def _describe_result(plan: ApplyPlan, done: dict[str, Any], handle: FleetHandle) -> str:
    if not plan.items:
        return _UP_TO_DATE
    effect = f"  In effect now (pid {done['pid']})." if "pid" in done else f"\n{describe_effect(handle)}"
    return f"{summarize_plan(plan, '')}{effect}\nundo: put the files back as they were, and apply again"
