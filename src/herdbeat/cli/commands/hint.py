"""`herdbeat hint`: another interval or time for a while; `--clear` removes hints, `--list` shows them."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from herdbeat.cli import spec as flags
from herdbeat.cli.commands.control import EXIT_REFUSED, format_until, preview_change, result_lines, run_change
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import (
    DECLINED,
    confirm_if_all,
    deliver_change,
    open_fleet_for_change,
    parse_reason,
    pending_notice,
    select_records,
    serialize_delivery,
    undo_command,
)
from herdbeat.cli.fleet_handle import NEVER_RAN_NOTICE, FleetHandle, open_fleet_handle
from herdbeat.cli.output.render import ErrorLine, Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.output.time_format import format_time_left
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.change import ChangeKind
from herdbeat.durations import format_duration, parse_duration
from herdbeat.errors import UsageError
from herdbeat.service.commands.base import ClearHints, HintSchedules, ScheduleChange, ScheduleChanges
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.queries.hints import HintState, HintView, classify_hints
from herdbeat.service.serialize import serialize_hint
from herdbeat.time_phrases import parse_future_time
from herdbeat.timestamps import parse_stored_timestamp

ENDED_HINT_MAX_AGE = timedelta(days=1)
"""How long ago a hint may have ended to be listed."""

_HEADINGS = ["ID", "SCHEDULE", "HINT", "BY", "STATE", "ENDS", "REASON"]
_STATE_SYMBOLS = {HintState.ACTIVE: ("↯", "green"), HintState.SHADOWED: ("·", "yellow")}


def run_hint(args: ParsedArgs, context: Context) -> Output:
    _require_one_action(args)
    if args.has(flags.LIST):
        return _list_hints(args, context, open_fleet_handle(args, context))
    handle = open_fleet_for_change(args, context)
    if args.has(flags.CLEAR):
        return run_change(args, context, handle, ClearHints(hint=parse_hint_id(args)))
    return _set_hint(args, context, handle)


def parse_hint_id(args: ParsedArgs) -> int | None:
    """Raises UsageError."""
    text = args.value(flags.HINT_ID)
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError(f'"{text}" is not the id of a hint.', hint="Show the ids: herdbeat hint --list")
    return None if text is None else int(text)


def _require_one_action(args: ParsedArgs) -> None:
    values = [option.names[-1] for option in (flags.EVERY, flags.AT) if args.value(option) is not None]
    actions = values + [option.names[-1] for option in (flags.CLEAR, flags.LIST) if args.has(option)]
    hint = "Use one of --every DURATION, --at TIME, --clear or --list."
    if not actions:
        raise UsageError("The hint has no value.", hint=hint)
    if args.value(flags.HINT_ID) is not None and not args.has(flags.CLEAR):
        raise UsageError("--id names the hint that --clear removes.", hint="Add --clear.")
    if len(actions) > 1:
        raise UsageError(f"{' and '.join(actions)} cannot be combined.", hint=hint)


def _set_hint(args: ParsedArgs, context: Context, handle: FleetHandle) -> Output:
    records = select_records(args, handle)
    command = _build_hint_command(args, handle, [each.id for each in records])
    if args.has(flags.DRY_RUN):
        return preview_change(context, handle, command, records)
    if not confirm_if_all(args, context, f"This sets a hint for {format_count(len(records), 'schedule')}."):
        return Output(exit_status=DECLINED.exit_status)
    delivery = deliver_change(context, handle, command)
    undo = undo_command(args, command, delivery.result)
    lines = _delivery_lines(handle, delivery, undo)
    exit_status = EXIT_REFUSED if delivery.result.refused else 0
    return Output(json=lambda: serialize_delivery(delivery, undo), lines=lines, exit_status=exit_status)


def _delivery_lines(handle: FleetHandle, delivery: Delivery[ScheduleChanges], undo: str) -> Iterator[str]:
    refused = ScheduleChanges(items=delivery.result.refused)
    for item in delivery.result.changed:
        yield from _hint_lines(handle, item)
    yield from map(ErrorLine, result_lines(handle, ChangeKind.HINT, refused, ""))
    if undo:
        yield Notice(f"undo: {undo}")
    yield from pending_notice(handle, delivery)


def _build_hint_command(args: ParsedArgs, handle: FleetHandle, schedule_ids: Sequence[int]) -> HintSchedules:
    every, at, lasts = args.value(flags.EVERY), args.value(flags.AT), args.value(flags.FOR)
    return HintSchedules(
        schedules=tuple(schedule_ids),
        reason=parse_reason(args),
        every=None if every is None else parse_duration(every).total_seconds(),
        at=None if at is None else parse_future_time(at, handle.now, handle.zone),
        lasts=None if lasts is None else parse_duration(lasts).total_seconds(),
    )


def _hint_lines(handle: FleetHandle, item: ScheduleChange) -> Iterator[str]:
    hint, following = item.after, item.next_run_at
    until = format_until(parse_stored_timestamp(str(hint["until"])), handle.now, handle.zone)
    hint_text = f"every {hint['every']} until {until}"
    if not hint["every"]:
        hint_text = f"at {format_time(parse_stored_timestamp(str(hint['at'])), handle.now, handle.zone)}"
    next_text = "no next run planned"
    if following is not None and hint["every"] and following > parse_stored_timestamp(str(hint["until"])):
        next_text = f"ends before the run at {format_time(following, handle.now, handle.zone)}; see: herdbeat next"
    elif following is not None:
        next_text = f"next {format_time(following, handle.now, handle.zone)}"
    elif item.running:
        next_text = "next run is planned when the active run ends"
    yield f"{printable(item.schedule)}  {hint_text}, by {printable(str(hint['by']))}   {next_text}"
    for note in item.notes:
        yield f"  {printable(note)}"


def _list_hints(args: ParsedArgs, context: Context, handle: FleetHandle) -> Output:
    if handle.reader is None:
        hints = []
    else:
        is_named = bool(args.positionals or args.all_values(flags.TAG) or args.all_values(flags.GROUP))
        ids = [each.id for each in select_records(args, handle)] if is_named else None
        hints = classify_hints(handle.reader.hints(ids, ended_since=handle.now - ENDED_HINT_MAX_AGE), handle.now)
    lines: Iterable[str] = [Notice(NEVER_RAN_NOTICE if handle.reader is None else "No hints.")]
    if hints:
        rows = [_HEADINGS, *(_hint_row(context, handle, each) for each in hints)]
        lines = context.terminal.format_table(rows, shrink=(6, 1))
    return Output(json=lambda: {"items": [serialize_hint(each) for each in hints]}, lines=lines)


def _hint_row(context: Context, handle: FleetHandle, hint_status: HintView) -> list[str]:
    hint = hint_status.record
    glyph, colour = _STATE_SYMBOLS.get(hint_status.state, ("–", "dim"))
    hint_text = f"at {format_time(hint.at, handle.now, handle.zone)}" if hint.at else ""
    ended = hint.ended_at or hint.expires_at
    state = f"cleared by {hint.ended_by}" if hint_status.state is HintState.CLEARED else hint_status.state.value
    text = hint_text or f"every {format_duration(hint.every or timedelta(0))}"
    status = context.terminal.style(f"{glyph} {printable(state)}", colour)
    left = format_time_left(ended, handle.now)
    return [str(hint.id), printable(hint.schedule), text, printable(hint.origin), status, left, printable(hint.reason)]
