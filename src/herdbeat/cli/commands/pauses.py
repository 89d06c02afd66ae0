"""`herdbeat pauses` and `herdbeat pause --from`: planned pauses, their list, and how to cancel one."""

import shlex
from collections.abc import Iterator
from datetime import datetime

from herdbeat.cli import spec as flags
from herdbeat.cli.commands.control import format_until
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import (
    DECLINED,
    build_selection,
    confirm_if_all,
    current_actor,
    describe_effect,
    parse_reason,
    select_records,
)
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.planned_pause import PlannedPause
from herdbeat.durations import parse_duration
from herdbeat.errors import UsageError
from herdbeat.service.commands.base import CancelPause, PlanPause, result_to_json
from herdbeat.service.serialize import serialize_planned_pause
from herdbeat.time_phrases import parse_future_time, parse_period_end
from herdbeat.timestamps import format_timestamp


def run_pauses(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    limit, include_past = parse_row_count(args.value(flags.COUNT)), args.has(flags.ALL)
    planned = handle.require_reader().planned_pauses(handle.now, include_past=include_past, limit=limit)
    return Output(
        json=lambda: {"items": [serialize_planned_pause(each, handle.now) for each in planned]},
        lines=_lines(context.terminal, handle, planned),
    )


_MAX_NUMBER_DIGITS = 18
"""A longer number does not fit into the ledger."""


def run_cancel(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    (written,) = args.positionals
    if not written.isdecimal() or len(written) > _MAX_NUMBER_DIGITS:
        raise UsageError(f'"{written[:100]}" is not the number of a planned pause.', hint="List them: herdbeat pauses")
    known = handle.require_reader().planned_pauses(handle.now, pause_id=int(written))
    command = CancelPause(pause=int(written), reason=parse_reason(args))
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    result = delivery.result
    undo = _plan_command(known[0]) if known and result.from_at > handle.now else ""
    has_begun = result.from_at <= handle.now
    text = f"{'Ended' if has_begun else 'Cancelled'} the planned pause of {printable(result.selection)}."
    return Output(
        json=lambda: {**result_to_json(result), "undo": undo or None},
        lines=[
            f"{text}   undo: {undo}" if undo else text,
            *_pending_notice(handle, has_live_node=delivery.has_live_node),
        ],
    )


def plan_pause(args: ParsedArgs, context: Context, handle: FleetHandle) -> Output:
    """`herdbeat pause … --from T`: write it down, and say what it holds."""
    from_at = parse_future_time(args.value(flags.FROM) or "", handle.now, handle.zone)
    if args.has(flags.CANCEL_RUNNING):
        raise UsageError("--cancel-running and --from cannot be combined.", hint="Cancel runs when it begins.")
    until = _parse_end(args, handle, from_at)
    records, selection = select_records(args, handle), build_selection(args)
    span = f"from {format_until(from_at, handle.now, handle.zone)} until {format_until(until, handle.now, handle.zone)}"
    count = format_count(len(records), "schedule")
    if args.has(flags.DRY_RUN):
        items = [each.label for each in records]
        lines = [f"Would pause {count} {span}. Nothing was changed."]
        return Output(json=lambda: {"what": "plan_pause", "items": items}, lines=lines)
    if not confirm_if_all(args, context, f"This will pause {count} {span}."):
        return DECLINED
    command = PlanPause(
        from_at=from_at,
        until=until,
        names=selection.names,
        tags=selection.tags,
        groups=selection.groups,
        everything=selection.everything,
        reason=parse_reason(args),
    )
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    result, undo = delivery.result, f"herdbeat pauses cancel {delivery.result.id}"
    text = f"Planned pause {result.id}: {printable(result.selection)} ({count}) {span}.   undo: {undo}"
    return Output(
        json=lambda: {**result_to_json(result), "undo": undo},
        lines=[text, *_pending_notice(handle, has_live_node=delivery.has_live_node)],
    )


def _pending_notice(handle: FleetHandle, *, has_live_node: bool) -> Iterator[str]:
    if not has_live_node:
        yield Notice(describe_effect(handle))


def _parse_end(args: ParsedArgs, handle: FleetHandle, from_at: datetime) -> datetime:
    """The end counts from the beginning: `--from 22:00 --until 02:00` ends the next morning."""
    lasts, until = args.value(flags.FOR), args.value(flags.UNTIL)
    if (lasts is None) == (until is None):
        raise UsageError("A planned pause needs --until or --for.", hint="For example: --from 22:00 --for 2h")
    if lasts is not None:
        return from_at + parse_duration(lasts)
    return parse_period_end(until or "", from_at, handle.now, handle.zone)


def _plan_command(planned: PlannedPause) -> str:
    """Return the command that plans it again."""
    selection = planned.selection
    words = ["herdbeat", "pause", *selection.names]
    words += [word for tag in selection.tags for word in ("--tag", tag)]
    words += [word for group in selection.groups for word in ("--group", group)]
    words += ["--all", "--yes"] if selection.everything else []
    words += ["--from", format_timestamp(planned.from_at), "--until", format_timestamp(planned.until)]
    words += ["--reason", planned.reason] if planned.reason else []
    return printable(shlex.join(words))


def _lines(terminal: Terminal, handle: FleetHandle, planned: list[PlannedPause]) -> Iterator[str]:
    if not planned:
        yield Notice("No pause is planned. Plan one: herdbeat pause NAME --from 22:00 --for 2h")
        return
    rows = [_row(handle, each) for each in planned]
    heading = ["ID", "STATE", "FROM", "UNTIL", "SELECTS", "SCHEDULES", "BY", "REASON"]
    yield from terminal.format_table([heading, *rows], shrink=(4, 7))


def _row(handle: FleetHandle, planned: PlannedPause) -> list[str]:
    now, zone = handle.now, handle.zone
    return [
        str(planned.id),
        str(serialize_planned_pause(planned, now)["state"]),
        format_until(planned.from_at, now, zone),
        format_until(planned.until, now, zone),
        printable(planned.selection.describe()),
        str(planned.schedules),
        printable(planned.by),
        printable(planned.reason) or "–",
    ]
