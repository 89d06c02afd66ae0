"""`herdbeat state`: the state of all schedules as a state.yaml, and the import of one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from herdbeat.cli import spec as flags
from herdbeat.cli.actor import current_actor
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import dispatch_request
from herdbeat.cli.fleet_handle import NEVER_RAN_NOTICE, FleetHandle, open_fleet_handle
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.schedule import display_name
from herdbeat.errors import UsageError
from herdbeat.scheduler.repair.import_state import ImportedState
from herdbeat.service.maintenance.state_file import (
    import_states_offline,
    imported_states_to_rows,
    parse_state_file,
    serialize_state,
)

IMPORT_BATCH_SIZE = 100
"""Schedules in one request: it is one line, and those are not endless."""

_MAX_NAMED_SCHEDULES = 5
"""Schedules of one fate that are named; more are counted."""

ImportedStates = Mapping[tuple[str, str], ImportedState]


def run_state(args: ParsedArgs, context: Context) -> int:
    file = args.value(flags.IMPORT)
    with open_fleet_handle(args, context) as handle:
        if file is not None:
            return _import_state(args, context, handle, (context.folder / file).absolute())
        found = serialize_state(handle.reader, handle.name) if handle.reader is not None else {"agents": {}}
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    context.terminal.out.write(_format_yaml(found))
    if handle.reader is None:
        context.terminal.info(NEVER_RAN_NOTICE)
    return 0


def _format_yaml(found: object) -> str:
    from yaml import safe_dump  # noqa: PLC0415 - not for who wants JSON

    text: str = safe_dump(found, sort_keys=False, allow_unicode=True, width=120)
    return text


def _import_state(args: ParsedArgs, context: Context, handle: FleetHandle, file: Path) -> int:
    imported = parse_state_file(file)
    if not imported:
        raise UsageError(f"{file} tells of no schedule.", hint="Name a state.yaml: agents, each with its schedules.")
    if args.has(flags.DRY_RUN):
        known = {each.id for each in handle.fleet.schedules}
        found = [key for key in imported if "/".join(key) in known]
        context.terminal.info(
            f"Would look at {len(found)} of {format_count(len(imported), 'schedule')}. Nothing was changed."
        )
        return 0
    answers = [_send_batch(context, handle, part) for part in _split_batches(imported)]
    total: dict[str, list[str]] = {"taken": [], "kept": [], "empty": [], "unknown": []}
    for answer in answers:
        for result_kind in total:
            total[result_kind] += answer[result_kind]
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(total, indent=2, ensure_ascii=False))
        return 0
    for line in _result_lines(total):
        context.terminal.print(line)
    return 0


def _send_batch(context: Context, handle: FleetHandle, imported: ImportedStates) -> dict[str, Any]:
    who = current_actor(context)
    request = {"do": "remember", "who": who, "memories": list(imported_states_to_rows(imported))}

    def offline() -> dict[str, Any]:
        return asdict(import_states_offline(handle.path, handle.fleet, handle.now, imported, who))

    return dispatch_request(handle, request, offline)[0]


def _split_batches(imported: ImportedStates) -> Iterator[ImportedStates]:
    left = iter(imported.items())
    while part := dict(islice(left, IMPORT_BATCH_SIZE)):
        yield part


def _result_lines(total: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"Took over {format_count(len(total['taken']), 'schedule')}.   see: herdbeat list"
    for result_kind, description in (("kept", "has a past here, which stays"), ("unknown", "is not in this fleet")):
        for name in total[result_kind][:_MAX_NAMED_SCHEDULES]:
            yield f"  {_format_label(name)}  {description}"
        if len(total[result_kind]) > _MAX_NAMED_SCHEDULES:
            yield f"  and {len(total[result_kind]) - _MAX_NAMED_SCHEDULES} more"
    if total["empty"]:
        yield f"  {format_count(len(total['empty']), 'schedule')} never ran there"


def _format_label(name: str) -> str:
    return printable(display_name(*name.rsplit("/", 1)))
