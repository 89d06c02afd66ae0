"""`herdbeat state`: the state of all schedules as a state.yaml, and the import of one."""

from collections.abc import Iterator
from pathlib import Path

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor
from herdbeat.cli.fleet_handle import NEVER_RAN_NOTICE, FleetHandle, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.schedule import display_name
from herdbeat.errors import UsageError
from herdbeat.service.commands.base import ImportResult, ImportState, result_to_json
from herdbeat.service.maintenance.state_file import parse_state_file, serialize_state

_MAX_NAMED_SCHEDULES = 5
"""Schedules of one outcome that are named; more are counted."""


def run_state(args: ParsedArgs, context: Context) -> Output:
    handle, file = open_fleet_handle(args, context), args.value(flags.IMPORT)
    if file is not None:
        return _import_state(args, context, handle, (context.folder / file).absolute())
    state = serialize_state(handle.reader, handle.name) if handle.reader is not None else {"agents": {}}
    return Output(json=lambda: state, lines=_yaml_lines(handle, state))


def _yaml_lines(handle: FleetHandle, state: object) -> Iterator[str]:
    from yaml import safe_dump  # noqa: PLC0415 - JSON needs none of it

    text: str = safe_dump(state, sort_keys=False, allow_unicode=True, width=120)
    yield text.removesuffix("\n")
    if handle.reader is None:
        yield Notice(NEVER_RAN_NOTICE)


def _import_state(args: ParsedArgs, context: Context, handle: FleetHandle, file: Path) -> Output:
    states = parse_state_file(file)
    if not states:
        raise UsageError(f"{file} contains no schedules.", hint="Use a state.yaml with agents and their schedules.")
    if args.has(flags.DRY_RUN):
        known = {each.id for each in handle.fleet.schedules}
        count = sum(f"{each.agent}/{each.name}" in known for each in states)
        total = format_count(len(states), "schedule")
        return Output(lines=[Notice(f"Would import {count} of {total}. Nothing was changed.")])
    result = handle.dispatcher.run(current_actor(context), ImportState(states=states))
    return Output(json=lambda: result_to_json(result), lines=_result_lines(result))


def _result_lines(result: ImportResult) -> Iterator[str]:
    yield f"Imported {format_count(len(result.taken), 'schedule')}.   see: herdbeat list"
    for labels, description in (
        (result.kept, "has already run here; not changed"),
        (result.unknown, "is not in this fleet"),
    ):
        for name in labels[:_MAX_NAMED_SCHEDULES]:
            yield f"  {_format_label(name)}  {description}"
        if len(labels) > _MAX_NAMED_SCHEDULES:
            yield f"  and {len(labels) - _MAX_NAMED_SCHEDULES} more"
    if result.empty:
        yield f"  {format_count(len(result.empty), 'schedule')} without a run; not changed"


def _format_label(name: str) -> str:
    return printable(display_name(*name.rsplit("/", 1)))
