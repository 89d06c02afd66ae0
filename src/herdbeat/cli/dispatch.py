"""Carrying out a change: choose, ask if it is severe, then through the socket or, if nothing runs, into the ledger."""

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.control_socket.client import NotRunning, send_request
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.service.commands.base import ScheduleCommand, command_to_json
from herdbeat.service.commands.schedules import MAX_SCHEDULES_PER_TRANSACTION, execute_offline
from herdbeat.service.queries.nodes import describe_nodes
from herdbeat.service.queries.selectors import Selection, select_schedules

# Who acts on what a command has written: the node here, nodes elsewhere, or nobody yet.


STORED_NOTICE = "it is written down, and counts from the next herdbeat up."


def describe_effect(handle: FleetHandle) -> str:
    """From when on a change counts that no node here was told of."""
    working = [node for node in handle.live_nodes if node.works]
    if working:
        return f"{describe_nodes(working)} this fleet: it counts at once."
    if isinstance(handle.path, Path):
        return f"Nothing runs here: {STORED_NOTICE}"
    return f"No node runs this fleet: {STORED_NOTICE}"


# Getting something done, whoever is there: by the fleet that runs, or by ourselves where nothing runs.


LOCK_TIMEOUT_S = 5.0
"""Seconds to wait for another command that is just writing into the same ledger."""

POLL_INTERVAL_S = 0.05

ResultT = TypeVar("ResultT")


def dispatch_request(
    handle: FleetHandle, request: Mapping[str, object], offline: Callable[[], ResultT]
) -> tuple[dict[str, Any] | ResultT, bool]:
    """The answer, and whether anybody acts on it now: the fleet that gave it, or nodes elsewhere that share the ledger.

    Raises Conflict if somebody holds the ledger and does not answer.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            return send_request(handle.state_dir, request), True
        except NotRunning:
            pass
        try:
            return offline(), handle.is_shared and handle.holder_pid is not None
        except Conflict:
            # Somebody came between the question and the lock: `up`, which answers next time, or a command like this.
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_INTERVAL_S)


EXIT_DECLINED = 1

MAX_NAMED_SCHEDULES = 10
"""Schedules that an undo names one by one."""

ResultItem = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """What became of each schedule, and whether the fleet was running."""

    items: list[ResultItem]
    has_live_node: bool

    @property
    def changed(self) -> list[ResultItem]:
        return [each for each in self.items if each["changed"]]

    @property
    def refused(self) -> list[ResultItem]:
        return [each for each in self.items if each["refused"]]


def build_selection(args: ParsedArgs) -> Selection:
    return Selection(
        names=args.positionals,
        tags=args.all_values(flags.TAG),
        groups=args.all_values(flags.GROUP),
        everything=args.has(flags.ALL),
    )


def format_selection(args: ParsedArgs, result: ChangeResult) -> str:
    """What was changed, in words that a shell takes: what an undo is about.

    As it was selected; but if some of the selection were so before, an undo of all would change those, too. Then they
    are named one by one, while that is readable.
    """
    changed = [str(each["schedule"]) for each in result.changed]
    if len(changed) < len(result.items) and len(changed) <= MAX_NAMED_SCHEDULES:
        words = [shlex.quote(each) for each in changed]
    else:
        words = [
            *(shlex.quote(each) for each in args.positionals),
            *(f"--tag {shlex.quote(each)}" for each in args.all_values(flags.TAG)),
            *(f"--group {shlex.quote(each)}" for each in args.all_values(flags.GROUP)),
            *(["--all"] if args.has(flags.ALL) else []),
        ]
    return " ".join(words) + format_config_flag(args)


def format_config_flag(args: ParsedArgs) -> str:
    """Of which fleet, if that had to be said: an undo that looks for it here would find another one, or none."""
    path = args.value(flags.CONFIG)
    return "" if path is None else f" --config {shlex.quote(path)}"


def select_records(args: ParsedArgs, handle: FleetHandle) -> list[ScheduleRecord]:
    """Raises NotFound or UsageError. What is only in the files is told apart from what is nowhere."""
    try:
        return select_schedules(handle.require_reader(), build_selection(args))
    except NotFound:
        written = next((error for each in args.positionals if (error := handle.not_applied_error(each))), None)
        if written is None:
            raise
        raise written from None


def confirm_if_all(args: ParsedArgs, context: Context, sentence: str) -> bool:
    """Severe acts ask first: those on everything."""
    return not args.has(flags.ALL) or confirm(args, context, sentence)


def confirm(args: ParsedArgs, context: Context, sentence: str) -> bool:
    """Somebody has said yes. Raises UsageError where nobody can be asked."""
    if args.has(flags.YES):
        return True
    if not context.is_interactive or context.stdin is None:
        raise UsageError(f"{sentence} Nobody can be asked here.", hint="Say so with --yes; --dry-run shows them.")
    context.terminal.err.write(f"{sentence} Continue? [y/N] ")
    context.terminal.err.flush()
    return context.stdin.readline().strip().lower() in ("y", "yes")


def execute_change(
    context: Context,
    handle: FleetHandle,
    command: ScheduleCommand,
    records: Sequence[ScheduleRecord],
    *,
    cancel_running: bool = False,
) -> ChangeResult:
    """In bounded transactions: a change of ten thousand schedules does not hold up the beats that are due meanwhile."""
    items: list[ResultItem] = []
    has_live_node = False
    for start in range(0, len(records), MAX_SCHEDULES_PER_TRANSACTION):
        ids = [each.id for each in records[start : start + MAX_SCHEDULES_PER_TRANSACTION]]
        found, has_live_node = _execute_batch(handle, command, ids, cancel_running=cancel_running)
        items += found
        _show_progress(context, len(items), len(records))
    return ChangeResult(items=items, has_live_node=has_live_node)


def show_result_json(context: Context, result: ChangeResult, undo: str) -> None:
    answer = {"items": result.items, "changed": len(result.changed), "served": result.has_live_node, "undo": undo}
    context.terminal.print(json.dumps(answer, indent=2, ensure_ascii=False))


def show_pending_notice(context: Context, handle: FleetHandle, result: ChangeResult) -> None:
    if not result.has_live_node and result.changed:
        context.terminal.info(describe_effect(handle))


def _execute_batch(
    handle: FleetHandle, command: ScheduleCommand, ids: list[int], *, cancel_running: bool
) -> tuple[list[ResultItem], bool]:
    request = {"do": "change", "act": command_to_json(command), "schedules": ids, "cancel_running": cancel_running}
    answer, has_live_node = dispatch_request(
        handle,
        request,
        lambda: {
            "items": execute_offline(handle.path, handle.clock.now(), command, ids, cancel_running=cancel_running)
        },
    )
    items: list[ResultItem] = answer["items"]
    return items, has_live_node


def _show_progress(context: Context, result: int, total: int) -> None:
    err = context.terminal.err
    if total > MAX_SCHEDULES_PER_TRANSACTION and err.isatty() and not context.terminal.is_quiet:
        err.write(f"\r{result} of {format_count(total, 'schedule')}" + ("\n" if result >= total else ""))
        err.flush()


# The command that takes a change back: to what stood before, in words that a shell takes.


_INVERSE_VERBS = {ChangeKind.DISABLE: "enable", ChangeKind.ENABLE: "disable"}


def undo_command(args: ParsedArgs, what: ChangeKind, result: ChangeResult) -> str:
    """Empty if nothing takes it back. What stood in several ways goes back by several commands, while they are few."""
    labels_by_command: dict[str, list[str]] = {}
    for item in result.changed:
        labels_by_command.setdefault(_inverse_command(what, item["before"]), []).append(str(item["schedule"]))
    if not labels_by_command or "" in labels_by_command:
        return ""
    if len(labels_by_command) == 1:
        return f"herdbeat {next(iter(labels_by_command))} {format_selection(args, result)}"
    if len(result.changed) > MAX_NAMED_SCHEDULES:
        return ""
    return " && ".join(
        f"herdbeat {command} {shlex.join(names)}{format_config_flag(args)}"
        for command, names in labels_by_command.items()
    )


def _inverse_command(what: ChangeKind, before: ResultItem) -> str:
    match what:
        case ChangeKind.PAUSE | ChangeKind.RESUME:
            return _pause_again_command(before) if before["paused"] else "resume"
        case ChangeKind.SKIP:
            return f"skip --count {before['skips']}" if before["skips"] else "skip --clear"
        case _:
            return _INVERSE_VERBS.get(what, "")


def _pause_again_command(before: ResultItem) -> str:
    """With the end and the reason it had: a pause for two hours came back as one without an end."""
    end = ["--until", str(before["until"])] if before["until"] else []
    return shlex.join(["pause", *end, *(["--reason", str(before["reason"])] if before["reason"] else [])])
