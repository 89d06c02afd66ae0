"""`herdbeat cancel`: stop active runs, and settle queued beats."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import DECLINED, confirm_if_all, current_actor, parse_reason, select_records
from herdbeat.cli.fleet_handle import FleetHandle, is_cut_off, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.durations import format_elapsed, humanize
from herdbeat.errors import Conflict
from herdbeat.service.commands.base import CancelledWork, CancelRuns, CancelSchedules, result_to_json
from herdbeat.service.queries.selectors import find_run, resolve_selector
from herdbeat.service.serialize import JsonObject

CANCEL_WAIT_S = 7.0
"""Seconds to watch runs end: a program is killed five after it was asked to end."""

POLL_INTERVAL_S = 0.05


def run_cancel(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    runs, schedules = _select_subjects(args, handle)
    if args.has(flags.DRY_RUN):
        return _preview(context, handle, runs, schedules)
    sentence = f"This cancels all active runs and queued beats of {format_count(len(schedules), 'schedule')}."
    if not confirm_if_all(args, context, sentence):
        return DECLINED
    items = _execute(args, context, handle, runs, schedules)
    ended, lost = _wait_for_end(handle, items)
    lines = [line for item in items for line in _result_lines(item, ended, lost)]
    nothing = [Notice("No active runs or queued beats. No change.")]
    return Output(json=lambda: {"items": [_serialize(item, ended) for item in items]}, lines=lines or nothing)


def _select_subjects(args: ParsedArgs, handle: FleetHandle) -> tuple[list[RunRecord], list[ScheduleRecord]]:
    """Runs by id, schedules by everything else. Raises Conflict for a run that is over."""
    found = [resolve_selector(handle.require_reader(), word) for word in args.positionals]
    runs = [each.run for each in found if each.run is not None]
    for run in runs:
        if run.status is not RunStatus.RUNNING:
            when = f", {humanize(handle.now - run.finished_at)} ago" if run.finished_at else ""
            name = format_short_id(run.id)
            raise Conflict(f"Run {name} has already ended: {run.status}{when}.", hint=f"See: herdbeat explain {name}")
    if runs and len(runs) == len(args.positionals):
        return runs, []
    words = tuple(word for word, each in zip(args.positionals, found, strict=True) if each.run is None)
    return runs, select_records(replace(args, positionals=words), handle)


def _execute(
    args: ParsedArgs, context: Context, handle: FleetHandle, runs: list[RunRecord], schedules: list[ScheduleRecord]
) -> tuple[CancelledWork, ...]:
    actor, reason, force = current_actor(context), parse_reason(args), args.has(flags.FORCE)
    dispatcher = handle.dispatcher
    items: tuple[CancelledWork, ...] = ()
    if runs:
        runs_command = CancelRuns(runs=tuple(each.id for each in runs), reason=reason, force=force)
        items += dispatcher.run(actor, runs_command).items
    if schedules:
        command = CancelSchedules(schedules=tuple(each.id for each in schedules), reason=reason, force=force)
        items += dispatcher.run(actor, command).items
    return items


def _wait_for_end(handle: FleetHandle, items: Sequence[CancelledWork]) -> tuple[dict[str, RunRecord], set[str]]:
    """Return the runs as they are once they have ended, or after CANCEL_WAIT_S; and those whose node has died."""
    names = [name for item in items for name in item.runs]
    deadline = time.monotonic() + CANCEL_WAIT_S
    while True:
        has_node = handle.holder_pid is not None  # first: a node that leaves has recorded its results before
        found = {name: run for name in names if (run := find_run(handle.require_reader(), name)) is not None}
        lost = set() if has_node else {name for name, run in found.items() if is_cut_off(handle, run)}
        is_over = all(run.status is not RunStatus.RUNNING or name in lost for name, run in found.items())
        if is_over or time.monotonic() > deadline:
            return found, lost
        time.sleep(POLL_INTERVAL_S)


def _serialize(item: CancelledWork, ended: dict[str, RunRecord]) -> JsonObject:
    return {**result_to_json(item), "statuses": [ended[name].status for name in item.runs if name in ended]}


def _result_lines(item: CancelledWork, ended: dict[str, RunRecord], lost: set[str]) -> Iterator[str]:
    name = printable(item.schedule)
    for run in item.runs:
        if run in lost:
            yield f"– {name}  {run} was cut off: its node died. The next start records it as interrupted."
            continue
        yield f"{_describe_end(run, name, ended.get(run))}   retry: herdbeat retry {run}"
    if item.called_off:
        yield f"– {name}  {format_count(item.called_off, 'queued beat')} cancelled (skipped: by_request)"


def _describe_end(name: str, label: str, run: RunRecord | None) -> str:
    if run is None or run.status is RunStatus.RUNNING:
        return f"● {label}  {name} was asked to stop but is still running. Kill it with: herdbeat cancel {name} --force"
    spent = format_elapsed(run.elapsed(run.finished_at)) if run.finished_at else ""
    return f"– {label}  {name} {run.status} after {spent}"


def _preview(context: Context, handle: FleetHandle, runs: list[RunRecord], schedules: list[ScheduleRecord]) -> Output:
    rows = [[run.schedule, format_short_id(run.id), "1", "0"] for run in runs]
    rows += [[each.label, "", str(each.running), str(each.waiting)] for each in schedules]
    keys = ["schedule", "run", "running", "waiting"]
    items = [dict(zip(keys, row, strict=True)) for row in rows]
    table = context.terminal.format_table([[each.upper() for each in keys], *rows], shrink=(0,))
    notice = Notice(f"As of {handle.now:%H:%M:%S} UTC. Nothing was changed.")
    return Output(json=lambda: {"what": "cancel", "items": items}, lines=chain(table, [notice]))
