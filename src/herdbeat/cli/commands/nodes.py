"""`herdbeat nodes`: the processes that run this fleet."""

from collections.abc import Iterator
from pathlib import Path

from herdbeat.bootstrap.config import STATE_DIR_NAME
from herdbeat.bootstrap.handle import build_handle, find_local_pid, is_answering_ping
from herdbeat.cli import spec as flags
from herdbeat.cli.commands.status import EXIT_CHECK_FAILED
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, load_fleet_files, open_fleet_handle, parse_row_count
from herdbeat.cli.output.render import ErrorLine, Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.errors import ConfigError
from herdbeat.service.queries.nodes import NodeState, NodeView, find_nodes
from herdbeat.service.serialize import serialize_nodes

_HEADINGS = ["NODE", "HOST", "PID", "VERSION", "STATE", "SINCE", "SEEN", "RUNS", "LABELS"]
_STATE_COLOURS = {NodeState.ALIVE: "green", NodeState.LEFT: "dim", NodeState.DEAD: "red"}


def run_nodes(args: ParsedArgs, context: Context) -> Output:
    if args.has(flags.CHECK):
        return _check_node(_find_state_dir(args.value(flags.CONFIG), context))
    handle = open_fleet_handle(args, context)
    reader, limit = handle.require_reader(), parse_row_count(args.value(flags.COUNT))
    holder_pid, include_stopped = handle.holder_pid, args.has(flags.ALL)
    nodes = find_nodes(reader, handle.now, limit=limit, holder_pid=holder_pid, include_stopped=include_stopped)
    return Output(json=lambda: serialize_nodes(nodes), lines=_node_lines(context.terminal, handle, nodes))


def _check_node(state_dir: Path) -> Output:
    answers, pid = is_answering_ping(state_dir), find_local_pid(state_dir)
    if answers:
        line: str = Notice(f"The node of this folder responds (pid {pid}).")
    elif pid is not None:
        line = ErrorLine(f"The node of this folder (pid {pid}) does not respond.")
    else:
        line = ErrorLine("No node is running in this folder. Start one with: herdbeat up")
    data = {"answers": answers, "pid": pid}
    return Output(json=lambda: data, lines=[line], is_compact=True, exit_status=0 if answers else EXIT_CHECK_FAILED)


def _find_state_dir(config: str | None, context: Context) -> Path:
    """Return the folder of the node's socket. Files that were broken by an edit do not make a healthy node sick."""
    try:
        return build_handle(load_fleet_files(config, context)[1], context.clock).state_dir
    except ConfigError:
        path = context.folder / (config or ".")
        return (path if path.is_dir() else path.parent) / STATE_DIR_NAME


def _node_lines(terminal: Terminal, handle: FleetHandle, nodes: list[NodeView]) -> Iterator[str]:
    if nodes:
        rows = [_node_row(terminal, handle, view) for view in nodes]
        yield from terminal.format_table([_HEADINGS, *rows], shrink=(1, 8))
    if handle.holder_pid is not None:
        return
    if handle.live_nodes:
        yield Notice("All nodes have --no-workers, so nothing runs. Start one without it: herdbeat up")
    else:
        yield Notice("No node is running. Start one with: herdbeat up")


def _node_row(terminal: Terminal, handle: FleetHandle, view: NodeView) -> list[str]:
    node = view.record
    return [
        format_short_id(node.id),
        printable(node.host),
        str(node.pid),
        node.version,
        terminal.style(view.state, _STATE_COLOURS[view.state]),
        format_time(node.started_at, handle.now, handle.zone),
        format_time(view.last_seen_at, handle.now, handle.zone),
        str(node.running) if node.works else "no workers",
        printable(", ".join(node.labels)) or "–",
    ]
