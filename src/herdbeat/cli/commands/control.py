"""`herdbeat pause`, `resume`, `disable`, `enable`, `reset` and `skip`: one shape, six commands."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from zoneinfo import ZoneInfo

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import (
    DECLINED,
    confirm_if_all,
    current_actor,
    deliver_change,
    open_fleet_for_change,
    parse_reason,
    pending_notice,
    select_records,
    serialize_delivery,
    undo_command,
)
from herdbeat.cli.fleet_handle import FleetHandle, parse_row_count
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.change import ChangeData, ChangeKind
from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import parse_duration
from herdbeat.errors import NotFound, UsageError
from herdbeat.service.commands.base import (
    DisableSchedules,
    EnableSchedules,
    HoldCommand,
    PauseSchedules,
    ReleaseAccount,
    ResetSchedules,
    ResumeSchedules,
    ScheduleChange,
    ScheduleChanges,
    ScheduleCommand,
    SkipBeats,
    result_to_json,
)
from herdbeat.service.queries.schedule_state import resolve_condition
from herdbeat.time_phrases import parse_future_time
from herdbeat.timestamps import parse_stored_timestamp

EXIT_REFUSED = 1

PAST_TENSE = {
    ChangeKind.PAUSE: "Paused",
    ChangeKind.RESUME: "Resumed",
    ChangeKind.DISABLE: "Disabled",
    ChangeKind.ENABLE: "Enabled",
    ChangeKind.RESET: "Reset",
    ChangeKind.SKIP: "Skipping",
    ChangeKind.CLEAR_HINTS: "Cleared the hints of",
}


def result_lines(
    handle: FleetHandle, what: ChangeKind, result: ScheduleChanges, undo: str, *, cancelled: bool = False
) -> Iterator[str]:
    """A headline for what was changed, then a line for each schedule with a note or a refusal."""
    changed = result.changed
    if changed:
        subject = printable(changed[0].schedule) if len(changed) == 1 else format_count(len(changed), "schedule")
        text = f"{PAST_TENSE[what]} {subject}{_describe_effect(handle, what, changed, cancelled=cancelled)}"
        yield f"{text}   undo: {undo}" if undo else text
    for item in result.items:
        yield from _item_lines(handle, item, is_single=len(changed) == 1)


def format_until(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """16:04 CET, "tomorrow 09:00 CET": without seconds where there are none."""
    text = format_time(moment, now, zone)
    local = moment.astimezone(zone)
    return f"{text.removesuffix(':00') if not local.second and text.count(':') > 1 else text} {local:%Z}"


def _describe_effect(
    handle: FleetHandle, what: ChangeKind, changed: Sequence[ScheduleChange], *, cancelled: bool
) -> str:
    match what:
        case ChangeKind.PAUSE:
            until = changed[0].after["until"]
            end = f" until {_format_time(handle, until)}" if until else " until resumed"
            return f"{end}.{_describe_active_runs(changed, cancelled=cancelled)}"
        case ChangeKind.DISABLE:
            return f" until enabled, even after a restart.{_describe_active_runs(changed, cancelled=cancelled)}"
        case ChangeKind.SKIP:
            return _describe_skips(handle, changed)
        case ChangeKind.RESET if len(changed) == 1:
            return f": {_describe_reset(changed[0].before)}.{_describe_next_run(handle, changed)}"
        case _:
            return f".{_describe_next_run(handle, changed)}"


def _describe_active_runs(changed: Sequence[ScheduleChange], *, cancelled: bool) -> str:
    running = sum(each.running for each in changed)
    if not running:
        return ""
    verb = "will be cancelled" if cancelled else "will finish"
    return f" {format_count(running, 'active run')} {verb}."


def _describe_skips(handle: FleetHandle, changed: Sequence[ScheduleChange]) -> str:
    """One schedule says which beats, several how many."""
    skips = _read_int(changed[0].after, "skips")
    if not skips:
        return f": cancelled.{_describe_next_run(handle, changed)}"
    beats = "the next beat" if skips == 1 else f"the next {skips} beats"
    instants = changed[0].after.get("instants")
    if len(changed) > 1 or not isinstance(instants, list):
        return f": {beats}."
    first, last = _format_time(handle, instants[0]), _format_time(handle, instants[-1])
    if len(instants) < skips:
        return f": {beats}, starting {first}."
    return f": {beats}, {first if skips == 1 else f'{first} to {last}'}."


def _describe_reset(before: ChangeData) -> str:
    failures = _read_int(before, "failures")
    parts = [format_count(failures, "failure") + " cleared"] if failures else []
    return ", ".join([*parts, *(["quarantine ended"] if before["quarantine"] else [])])


def _describe_next_run(handle: FleetHandle, changed: Sequence[ScheduleChange]) -> str:
    at = changed[0].next_run_at
    if len(changed) > 1:
        return ""
    return f" Next run {format_until(at, handle.now, handle.zone)}." if at else " No next run planned."


def _item_lines(handle: FleetHandle, item: ScheduleChange, *, is_single: bool) -> Iterator[str]:
    name = printable(item.schedule)
    if item.refused:
        yield f"– {name}  refused: {printable(item.refused)}"
        yield f"  {printable(item.hint)}"
    elif not item.changed:
        notes = printable("; ".join(item.notes))
        yield f"· {name}  {notes}{_describe_pause(handle, item.after)}; no change"
    else:
        for note in item.notes:
            yield f"  {printable(note)}" if is_single else f"  {name}  {printable(note)}"


def _describe_pause(handle: FleetHandle, after: ChangeData) -> str:
    if not after.get("paused"):
        return ""
    end = f" until {_format_time(handle, after['until'])}" if after["until"] else " until resumed"
    reason = f' "{printable(str(after["reason"]))}"' if after["reason"] else ""
    return f"{end} by {printable(str(after['by']))}{reason}"


def _format_time(handle: FleetHandle, text: object) -> str:
    return format_until(parse_stored_timestamp(str(text)), handle.now, handle.zone)


def _read_int(data: ChangeData, key: str) -> int:
    value = data[key]
    assert isinstance(value, int)
    return value


def run_pause(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_for_change(args, context)
    if args.value(flags.FROM) is not None:
        from herdbeat.cli.commands.pauses import plan_pause  # noqa: PLC0415 -- few pauses are planned

        return plan_pause(args, context, handle)
    return run_change(args, context, handle, PauseSchedules(until=_parse_pause_end(args, handle)))


def _run_simple_change(command: ScheduleCommand, args: ParsedArgs, context: Context) -> Output:
    return run_change(args, context, open_fleet_for_change(args, context), command)


def run_resume(args: ParsedArgs, context: Context) -> Output:
    account = args.value(flags.ACCOUNT)
    if account is None:
        return _run_simple_change(ResumeSchedules(), args, context)
    if args.positionals or args.has(flags.ALL) or args.all_values(flags.TAG) or args.all_values(flags.GROUP):
        raise UsageError("--account and schedules cannot be combined.", hint="Release the account, then resume.")
    return _release_account(args, context, account)


def _release_account(args: ParsedArgs, context: Context, account: str) -> Output:
    handle = open_fleet_for_change(args, context)
    held = {hold.account for hold in handle.require_reader().holds(handle.now)}
    if account not in held:
        hint = f"Held accounts: {', '.join(sorted(map(printable, held)))}." if held else "No account is held."
        raise NotFound(f'The account "{printable(account)}" is not held.', hint=hint)
    command = ReleaseAccount(account=account, reason=parse_reason(args))
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    line = f"↻ account {printable(account)} released: what waited for it starts."
    return Output(json=lambda: result_to_json(delivery.result), lines=[line], is_compact=True)


run_disable = partial(_run_simple_change, DisableSchedules())
run_enable = partial(_run_simple_change, EnableSchedules())
run_reset = partial(_run_simple_change, ResetSchedules())


def run_change(args: ParsedArgs, context: Context, handle: FleetHandle, command: ScheduleCommand) -> Output:
    """Select, confirm, deliver, print. Exit 1 if anything was refused, or the answer was no."""
    records = select_records(args, handle)
    command = replace(command, schedules=tuple(each.id for each in records), reason=parse_reason(args))
    if args.has(flags.DRY_RUN):
        return preview_change(context, handle, command, records)
    if not confirm_if_all(args, context, _confirmation_text(args, command, records)):
        return DECLINED
    cancels = args.has(flags.CANCEL_RUNNING)
    if isinstance(command, HoldCommand):
        command = replace(command, cancel_running=cancels)
    delivery = deliver_change(context, handle, command)
    undo = undo_command(args, command, delivery.result)
    lines = result_lines(handle, command.what, delivery.result, undo, cancelled=cancels and delivery.has_live_node)
    all_lines = chain(lines, pending_notice(handle, delivery))
    exit_status = EXIT_REFUSED if delivery.result.refused else 0
    return Output(json=lambda: serialize_delivery(delivery, undo), lines=all_lines, exit_status=exit_status)


def _parse_pause_end(args: ParsedArgs, handle: FleetHandle) -> datetime | None:
    lasts, until = args.value(flags.FOR), args.value(flags.UNTIL)
    if lasts is not None and until is not None:
        raise UsageError("--for and --until cannot be combined.", hint="Use one of them.")
    if lasts is not None:
        return handle.now + parse_duration(lasts)
    return None if until is None else parse_future_time(until, handle.now, handle.zone)


def _confirmation_text(args: ParsedArgs, command: ScheduleCommand, records: list[ScheduleRecord]) -> str:
    running = sum(each.running for each in records)
    runs = ""
    if running and isinstance(command, PauseSchedules | DisableSchedules):
        runs = f" {format_count(running, 'active run')} will "
        runs += "be cancelled." if args.has(flags.CANCEL_RUNNING) else "finish (use --cancel-running to cancel)."
    return f"This will {command.what.replace('_', ' ')} {format_count(len(records), 'schedule')}.{runs}"


def preview_change(
    context: Context, handle: FleetHandle, command: ScheduleCommand, records: list[ScheduleRecord]
) -> Output:
    """What --dry-run prints: the schedules as they are."""
    rows = [[printable(each.label), resolve_condition(each, handle.now).state.value] for each in records]
    items = [{"schedule": label, "state": state} for label, state in rows]
    notice = f"Would {command.what.replace('_', ' ')} {format_count(len(records), 'schedule')}. Nothing was changed."
    table = context.terminal.format_table([["SCHEDULE", "STATE"], *rows], shrink=(0,))
    return Output(json=lambda: {"what": command.what, "items": items}, lines=chain(table, [Notice(notice)]))


def run_skip(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_for_change(args, context)
    return run_change(args, context, handle, SkipBeats(count=_parse_skip_count(args)))


def _parse_skip_count(args: ParsedArgs) -> int:
    count = args.value(flags.COUNT)
    if not args.has(flags.CLEAR):
        return parse_row_count(count, default_count=1)
    if count is not None:
        raise UsageError("--clear and --count cannot be combined.", hint="--clear cancels all pending skips.")
    return 0
