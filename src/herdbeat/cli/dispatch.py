"""From a command line to the command bus: select, confirm, deliver, and say when it takes effect and how to undo it."""

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pwd import getpwuid
from typing import TextIO

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.fleet_handle import select_schedules as select_configured
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.selection import Selection
from herdbeat.errors import NotFound, UsageError
from herdbeat.service import serialize
from herdbeat.service.commands.base import (
    Actor,
    ApplyFleet,
    ClearHints,
    HintSchedules,
    PauseSchedules,
    ScheduleChanges,
    ScheduleCommand,
    SkipBeats,
)
from herdbeat.service.commands.dispatch import Delivery, LoadedFleet, undo_steps
from herdbeat.service.queries.nodes import describe_nodes
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.service.serialize import JsonObject
from herdbeat.timestamps import format_timestamp

DECLINED = Output(lines=(Notice("Nothing was changed."),), exit_status=1)
"""What a command returns if the user does not confirm it."""

FIRST_START_NOTICE = "Saved; takes effect at the first start: herdbeat up"
STORED_NOTICE = "{why}. Saved; takes effect at the next start: herdbeat up"

MAX_NAMED_SCHEDULES = 10
"""Schedules that an undo names one by one."""


def current_actor(context: Context) -> Actor:
    """`human:you`. Not from the environment alone: a service has none, and a container may not know its own user."""
    return Actor(name=f"human:{context.environ.get('USER') or _login_name()}")


def parse_reason(args: ParsedArgs) -> str:
    """What --reason says; empty without one."""
    return (args.value(flags.REASON) or "").strip()


def _login_name() -> str:
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def open_fleet_for_change(args: ParsedArgs, context: Context) -> FleetHandle:
    """Open the fleet for a change of its schedules. Before the first `up`, its files are applied for it if necessary.

    A shared ledger only takes what `herdbeat apply` brings. Raises NotFound for a name that the files do not have.
    """
    handle = open_fleet_handle(args, context)
    is_known = handle.is_shared or not handle.has_files or handle.holder_pid is not None or _was_started(handle)
    stored = set() if handle.reader is None else handle.reader.similar_names("")
    unknown = [name for name in args.positionals if name not in stored]
    if is_known or args.has(flags.DRY_RUN) or (args.positionals and not unknown):
        return handle
    fleet = handle.fleet
    for name in unknown:
        select_configured(fleet, name)
    unapplied = replace(handle, load_applied=lambda _: LoadedFleet(fleet=fleet))
    unapplied.dispatcher.run(current_actor(context), ApplyFleet(path=""))
    return open_fleet_handle(args, context)


def _was_started(handle: FleetHandle) -> bool:
    return handle.reader is not None and handle.reader.last_node() is not None


def describe_effect(handle: FleetHandle) -> str:
    """When a change takes effect that no node here has executed."""
    if not handle.is_shared and not _was_started(handle):
        return FIRST_START_NOTICE
    working = [node for node in handle.live_nodes if node.works]
    if working:
        return f"{describe_nodes(working)} this fleet; the change is in effect now."
    return STORED_NOTICE.format(why="No node runs this fleet" if handle.is_shared else "The fleet is not running")


def build_selection(args: ParsedArgs) -> Selection:
    tags, groups = args.all_values(flags.TAG), args.all_values(flags.GROUP)
    return Selection(names=args.positionals, tags=tags, groups=groups, everything=args.has(flags.ALL))


def select_records(args: ParsedArgs, handle: FleetHandle) -> list[ScheduleRecord]:
    """Raises NotFound or UsageError. A name that is only in the files gets an error of its own."""
    try:
        return select_schedules(handle.require_reader(), build_selection(args))
    except NotFound:
        not_applied = next(
            (error for each in args.positionals if (error := handle.build_not_applied_error(each))), None
        )
        if not_applied is None:
            raise
        raise not_applied from None


def confirm_if_all(args: ParsedArgs, context: Context, sentence: str) -> bool:
    """A change of everything asks first."""
    return not args.has(flags.ALL) or confirm(args, context, sentence)


def confirm(args: ParsedArgs, context: Context, sentence: str) -> bool:
    """Whether the user says yes. Raises UsageError without an interactive terminal."""
    if args.has(flags.YES):
        return True
    if not context.is_interactive or context.stdin is None:
        raise UsageError(
            f"{sentence} Not an interactive terminal.", hint="Confirm with --yes, or preview with --dry-run."
        )
    return ask(context, sentence, context.stdin)


def ask(context: Context, sentence: str, stdin: TextIO) -> bool:
    context.terminal.out.flush()
    context.terminal.err.write(f"{sentence} Continue? [y/N] ")
    context.terminal.err.flush()
    return stdin.readline().strip().lower() in ("y", "yes")


def deliver_change(context: Context, handle: FleetHandle, command: ScheduleCommand) -> Delivery[ScheduleChanges]:
    def show_progress(done: int, total: int) -> None:
        err = context.terminal.err
        if total > command.batch_size and err.isatty() and not context.terminal.is_quiet:
            err.write(f"\r{done} of {format_count(total, 'schedule')}" + ("\n" if done >= total else ""))
            err.flush()

    return handle.dispatcher.deliver(current_actor(context), command, show_progress)


def serialize_delivery(delivery: Delivery[ScheduleChanges], undo: str) -> JsonObject:
    return {**serialize.serialize_delivery(delivery), "undo": undo}


def pending_notice(handle: FleetHandle, delivery: Delivery[ScheduleChanges]) -> Iterator[str]:
    """When the change takes effect, if no node acts on it now."""
    if not delivery.has_live_node and delivery.result.changed:
        yield Notice(describe_effect(handle))


def undo_command(args: ParsedArgs, command: ScheduleCommand, result: ScheduleChanges) -> str:
    """The command line that undoes a change; several if schedules stood differently, while they are few.

    Empty if nothing undoes it.
    """
    if isinstance(command, ClearHints):
        return ""  # the dashboard can; nobody can type when a rule gave its hint
    if isinstance(command, HintSchedules):
        return f"herdbeat hint {format_selection(args, result)} --clear" if result.changed else ""
    steps = undo_steps(command, result)
    if len(steps) == 1:
        return _format_undo(steps[0].command, format_selection(args, result))
    if len(result.changed) > MAX_NAMED_SCHEDULES:
        return ""
    config = format_config_flag(args)
    return " && ".join(_format_undo(each.command, f"{shlex.join(each.labels)}{config}") for each in steps)


def format_selection(args: ParsedArgs, result: ScheduleChanges) -> str:
    """What was changed, in words that a shell takes: the subject of an undo.

    As it was selected; but if some of the selection were so before, an undo of all would change those, too. Then they
    are named one by one, while that is readable.
    """
    changed = [each.schedule for each in result.changed]
    if len(changed) < len(result.items) and len(changed) <= MAX_NAMED_SCHEDULES:
        words = [shlex.quote(each) for each in changed]
    else:
        words = [shlex.quote(each) for each in args.positionals]
        for option in (flags.TAG, flags.GROUP):
            words += [f"{option.names[-1]} {shlex.quote(each)}" for each in args.all_values(option)]
        words += ["--all"] if args.has(flags.ALL) else []
    return " ".join(words) + format_config_flag(args)


def format_config_flag(args: ParsedArgs) -> str:
    """Which fleet, if the command line named it: an undo that looks for it here would find another one, or none."""
    path = args.value(flags.CONFIG)
    return "" if path is None else f" --config {shlex.quote(path)}"


def _format_undo(command: ScheduleCommand, subject: str) -> str:
    match command:
        case PauseSchedules():
            end = ["--until", format_timestamp(command.until)] if command.until else []
            words = shlex.join(["pause", *end, *(["--reason", command.reason] if command.reason else [])])
        case SkipBeats():
            words = f"skip --count {command.count}" if command.count else "skip --clear"
        case _:
            words = command.kind
    return f"herdbeat {words} {subject}"
