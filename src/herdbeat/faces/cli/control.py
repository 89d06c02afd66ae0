"""`herdbeat pause`, `resume`, `disable`, `enable` and `reset`: one shape, five acts."""

import json
from datetime import datetime

from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import parse_duration
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.changing import (
    EXIT_DECLINED,
    confirm_if_all,
    execute_change,
    select_records,
    show_pending_notice,
    show_result_json,
)
from herdbeat.faces.cli.control_words import result_lines
from herdbeat.faces.cli.future import parse_future_time
from herdbeat.faces.cli.ledger import FleetHandle, open_fleet_handle
from herdbeat.faces.cli.marks import format_count
from herdbeat.faces.cli.person import current_actor, parse_reason
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.undoing import undo_command
from herdbeat.faces.cli.world import Context
from herdbeat.service.acts import (
    DisableSchedules,
    EnableSchedules,
    PauseSchedules,
    ResetSchedules,
    ResumeSchedules,
    ScheduleCommand,
)
from herdbeat.service.states import resolve_display_state

EXIT_REFUSED = 1


def run_pause(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        command = PauseSchedules(
            who=current_actor(context), reason=parse_reason(args), until=_parse_pause_end(args, handle)
        )
        return run_change(args, context, handle, command)


def run_resume(args: ParsedArgs, context: Context) -> int:
    return _run_simple_change(args, context, ResumeSchedules)


def run_disable(args: ParsedArgs, context: Context) -> int:
    return _run_simple_change(args, context, DisableSchedules)


def run_enable(args: ParsedArgs, context: Context) -> int:
    return _run_simple_change(args, context, EnableSchedules)


def run_reset(args: ParsedArgs, context: Context) -> int:
    return _run_simple_change(args, context, ResetSchedules)


def _run_simple_change(
    args: ParsedArgs,
    context: Context,
    kind: type[ResumeSchedules | DisableSchedules | EnableSchedules | ResetSchedules],
) -> int:
    with open_fleet_handle(args, context) as handle:
        return run_change(args, context, handle, kind(who=current_actor(context), reason=parse_reason(args)))


def run_change(args: ParsedArgs, context: Context, handle: FleetHandle, command: ScheduleCommand) -> int:
    """Choose, ask, do, tell. Exit 1 if anything was refused, or the answer was no."""
    records = select_records(args, handle)
    if args.has(flags.DRY_RUN):
        return show_dry_run(args, context, handle, command, records)
    if not confirm_if_all(args, context, _confirmation_text(args, command, records)):
        context.terminal.info("Nothing was changed.")
        return EXIT_DECLINED
    cancels = args.has(flags.CANCEL_RUNNING)
    result = execute_change(context, handle, command, records, cancel_running=cancels)
    undo = undo_command(args, command.what, result)
    if args.has(flags.JSON):
        show_result_json(context, result, undo)
    else:
        for line in result_lines(handle, command.what, result, undo, cancelled=cancels and result.has_live_node):
            context.terminal.print(line)
        show_pending_notice(context, handle, result)
    return EXIT_REFUSED if result.refused else 0


def _parse_pause_end(args: ParsedArgs, handle: FleetHandle) -> datetime | None:
    lasts, until = args.value(flags.FOR), args.value(flags.UNTIL)
    if lasts is not None and until is not None:
        raise UsageError("--for and --until say the same thing.", hint="Write one of them.")
    if lasts is not None:
        return handle.now + parse_duration(lasts)
    return None if until is None else parse_future_time(until, handle.now, handle.zone)


def _confirmation_text(args: ParsedArgs, command: ScheduleCommand, records: list[ScheduleRecord]) -> str:
    running = sum(each.running for each in records)
    runs = ""
    if running and isinstance(command, PauseSchedules | DisableSchedules):
        runs = f" {format_count(running, 'run')} in progress "
        runs += "will be stopped." if args.has(flags.CANCEL_RUNNING) else "may finish (--cancel-running stops them)."
    return f"{command.what.capitalize()}s {format_count(len(records), 'schedule')}.{runs}"


def show_dry_run(
    args: ParsedArgs, context: Context, handle: FleetHandle, command: ScheduleCommand, records: list[ScheduleRecord]
) -> int:
    rows = [[printable(each.label), resolve_display_state(each, handle.now).value] for each in records]
    if args.has(flags.JSON):
        items = [{"schedule": label, "state": state} for label, state in rows]
        context.terminal.print(json.dumps({"what": command.what, "items": items}, indent=2, ensure_ascii=False))
        return 0
    for line in context.terminal.format_table([["SCHEDULE", "STATE"], *rows], shrink=(0,)):
        context.terminal.print(line)
    context.terminal.info(f"Would {command.what} {format_count(len(records), 'schedule')}. Nothing was changed.")
    return 0
