"""`herdbeat show`: everything about one target, schedule, run or beat."""

import json
from typing import assert_never

from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.ledger import FleetHandle, open_fleet_handle
from herdbeat.faces.cli.show_run import find_log_path, show_beat_details, show_run_details
from herdbeat.faces.cli.show_schedule import show_schedule_details, show_target_details
from herdbeat.faces.cli.world import Context
from herdbeat.service.objects import JsonObject
from herdbeat.service.showing import (
    BeatView,
    DetailView,
    RunView,
    ScheduleView,
    TargetView,
    find_details,
    serialize_beat_view,
    serialize_run_view,
    serialize_schedule_view,
    serialize_target,
)


def run_show(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        shown = find_details(handle.require_reader(), args.positionals[0], handle.now)
        if args.has(flags.JSON):
            context.terminal.print(json.dumps(_details_object(handle, shown), indent=2, ensure_ascii=False))
        else:
            _show_details(context, handle, shown)
    return 0


def _show_details(context: Context, handle: FleetHandle, shown: DetailView) -> None:
    match shown:
        case TargetView():
            show_target_details(context.terminal, handle, shown)
        case ScheduleView():
            show_schedule_details(context.terminal, handle, shown)
        case RunView():
            show_run_details(context.terminal, handle, shown)
        case BeatView():
            show_beat_details(context.terminal, handle, shown)
        case never:
            assert_never(never)


def _details_object(handle: FleetHandle, shown: DetailView) -> JsonObject:
    match shown:
        case TargetView():
            return serialize_target(shown)
        case ScheduleView():
            return serialize_schedule_view(shown)
        case RunView():
            return {**serialize_run_view(shown), "log": find_log_path(handle, shown.run)}
        case BeatView():
            return serialize_beat_view(shown)
        case never:
            assert_never(never)
