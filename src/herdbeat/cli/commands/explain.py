"""`herdbeat explain`: three questions, one trace."""

import json

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.output.explain import show_explanation
from herdbeat.cli.output.time_parse import parse_past_time
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import NotFound
from herdbeat.service.queries.explain import (
    Explanation,
    load_instant_explanation,
    load_next_explanation,
    load_run_explanation,
)
from herdbeat.service.queries.selectors import find_run, find_schedule
from herdbeat.service.serialize import serialize_explanation


def run_explain(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        explanation = _find_explanation(args, handle)
        if args.has(flags.JSON):
            context.terminal.print(json.dumps(serialize_explanation(explanation), indent=2, ensure_ascii=False))
        else:
            show_explanation(context.terminal, handle, explanation)
    return 0


def _find_explanation(args: ParsedArgs, handle: FleetHandle) -> Explanation:
    """A schedule's name comes first: a target may well be called `beef`, which is also the id of a run."""
    reader, selector = handle.require_reader(), args.positionals[0]
    try:
        record = find_schedule(reader, selector)
    except NotFound:
        found = find_run(reader, selector)
        if found is None and (written := handle.not_applied_error(selector)):
            raise written from None
        if found is None:
            raise
        return load_run_explanation(reader, found, handle.now, handle.zone)
    at = args.value(flags.AT)
    if at is None:
        return load_next_explanation(reader, record, handle.now, has_live_node=handle.holder_pid is not None)
    return load_instant_explanation(
        reader, record, parse_past_time(at, handle.now, handle.zone), handle.now, handle.zone
    )
