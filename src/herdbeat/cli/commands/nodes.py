"""`herdbeat nodes`: who runs this fleet."""

import json

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.service.queries.nodes import NodeState, NodeView, find_nodes
from herdbeat.service.serialize import serialize_nodes

_HEADINGS = ["NODE", "HOST", "PID", "VERSION", "STATE", "SINCE", "SEEN", "RUNS", "LABELS"]
_STATE_COLOURS = {NodeState.ALIVE: "green", NodeState.LEFT: "dim", NodeState.DEAD: "red"}


def run_nodes(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        has_live_node, limit = handle.holder_pid is not None, parse_row_count(args.value(flags.COUNT))
        found = find_nodes(
            handle.require_reader(),
            handle.now,
            limit=limit,
            has_live_node=has_live_node,
            include_stopped=args.has(flags.ALL),
        )
        if args.has(flags.JSON):
            context.terminal.print(json.dumps(serialize_nodes(found), indent=2))
            return 0
        rows = [_node_row(context.terminal, handle, each) for each in found]
        for line in context.terminal.format_table([_HEADINGS, *rows], shrink=(1, 8)) if rows else []:
            context.terminal.print(line)
        _show_notice(context, handle)
    return 0


def _show_notice(context: Context, handle: FleetHandle) -> None:
    if handle.holder_pid is not None:
        return
    if handle.live_nodes:
        context.terminal.info("No node works, so nothing starts. Start one without --no-workers: herdbeat up")
    else:
        context.terminal.info("No node runs this fleet. Start one with: herdbeat up")


def _node_row(terminal: Terminal, handle: FleetHandle, each: NodeView) -> list[str]:
    node = each.record
    return [
        format_short_id(node.id),
        printable(node.host),
        str(node.pid),
        node.version,
        terminal.style(each.state, _STATE_COLOURS[each.state]),
        format_time(node.started_at, handle.now, handle.zone),
        format_time(node.stopped_at or node.seen_at, handle.now, handle.zone),
        str(node.running) if node.works else "none here",
        printable(", ".join(node.labels)) or "–",
    ]
