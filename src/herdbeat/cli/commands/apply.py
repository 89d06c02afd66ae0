"""`herdbeat apply`: show the plan, then apply it. With --dry-run the plan alone; nothing is written."""

import os
from dataclasses import replace

from herdbeat.bootstrap.config import load_config, locate_config
from herdbeat.bootstrap.handle import build_handle
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import DECLINED, ask, current_actor, describe_effect
from herdbeat.cli.fleet_handle import FleetHandle
from herdbeat.cli.output.errors import show_error
from herdbeat.cli.output.plan import format_plan, summarize_plan
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import format_count
from herdbeat.cli.parser import ParsedArgs, parse_zone_flags
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, UsageError
from herdbeat.service.commands.base import AppliedFleet, ApplyFleet
from herdbeat.service.commands.dispatch import Delivery, LoadedFleet
from herdbeat.service.commands.fleet import (
    PARTIAL_FILE_KINDS,
    ApplyPlan,
    load_applied_fleet,
    preview_apply,
    require_valid_fleet,
    serialize_plan,
)

EXIT_CHANGES_PENDING = 6
"""The exit status of --exit-code if there are changes to apply."""

_UP_TO_DATE = "The fleet matches its files. No change."


def run_apply(args: ParsedArgs, context: Context) -> Output | int:
    """Files with errors change nothing, and every error is printed."""
    try:
        loaded, handle, command = _load_request(args, context)
    except ConfigError as error:
        show_error(context.terminal, error, as_json=args.has(flags.JSON))
        context.terminal.info("Nothing was changed. A running fleet keeps the last valid configuration.")
        return error.exit_status
    plan = preview_apply(handle.path, loaded.fleet, handle.now, is_whole=loaded.is_whole)
    if not args.has(flags.JSON):
        # Printed before anything is asked or applied.
        for line in format_plan(context.terminal, plan, handle.now, handle.zone):
            context.terminal.print(line)
    if args.has(flags.DRY_RUN):
        return _preview(args, plan)
    if not _confirm_removals(args, context, plan):
        return DECLINED
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    notice = Notice(_describe_result(plan, delivery, handle))
    served = delivery.has_live_node
    return Output(json=lambda: {**serialize_plan(plan), "applied": True, "served": served}, lines=[notice])


def _load_request(args: ParsedArgs, context: Context) -> tuple[LoadedFleet, FleetHandle, ApplyFleet]:
    """What to apply, to which ledger, and the command that does so."""
    word, option = args.positional(0), args.value(flags.CONFIG)
    reading = load_config(word or option, context.environ, context.folder)
    is_part = word is not None and reading.kind in PARTIAL_FILE_KINDS
    if word is not None and option is not None and not is_part:
        raise UsageError("PATH and --config cannot be combined.", hint="Give the path once.")
    whole = _load_whole(option, context) if is_part else require_valid_fleet(reading)
    handle = build_handle(whole, context.clock)
    loaded = load_applied_fleet(whole, reading, handle.path) if is_part else LoadedFleet(fleet=whole)
    # Read once: what is applied is what the plan has shown.
    zone = parse_zone_flags(args) or whole.zone
    handle = replace(handle.use_ledger_clock(), zone=zone, load_applied=lambda _: loaded)
    file = locate_config(word or option, context.environ, context.folder)
    assert file is not None, "it was read a moment ago"
    return loaded, handle, ApplyFleet(path=os.fspath(file.absolute()))


def _load_whole(config: str | None, context: Context) -> Fleet:
    """The fleet that a single file is applied to. What is wrong in its other files does not concern this one."""
    whole = load_config(config, context.environ, context.folder)
    return require_valid_fleet(whole) if whole.fleet is None else whole.fleet


def _confirm_removals(args: ParsedArgs, context: Context, plan: ApplyPlan) -> bool:
    """Asked at an interactive terminal if something is removed. A pipeline has decided that by its files."""
    removed = plan.count(ChangeKind.REMOVE)
    if not removed or args.has(flags.YES) or not context.is_interactive or context.stdin is None:
        return True
    return ask(context, f"This removes {format_count(removed, 'schedule')} (history is kept).", context.stdin)


def _preview(args: ParsedArgs, plan: ApplyPlan) -> Output:
    summary = f"{summarize_plan(plan, 'to')}  Nothing was changed." if plan.items else _UP_TO_DATE
    exit_status = EXIT_CHANGES_PENDING if plan.items and args.has(flags.EXIT_CODE) else 0
    lines = [Notice(summary)]
    return Output(json=lambda: {**serialize_plan(plan), "applied": False}, lines=lines, exit_status=exit_status)


def _describe_result(plan: ApplyPlan, delivery: Delivery[AppliedFleet], handle: FleetHandle) -> str:
    if not plan.items:
        return _UP_TO_DATE
    effect = f"  In effect now (pid {delivery.pid})." if delivery.pid is not None else f"\n{describe_effect(handle)}"
    return f"{summarize_plan(plan, '')}{effect}\nundo: restore the previous files and apply again"
