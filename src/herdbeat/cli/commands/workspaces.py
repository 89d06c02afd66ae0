"""`herdbeat workspaces` and `herdbeat workspaces prune`: the worktrees that runs have left on this host."""

from collections.abc import Iterator

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.workspace import RemoteBranch, Workspace, WorkspaceState
from herdbeat.service.serialize import serialize_workspaces
from herdbeat.service.workspaces import list_remote_branches, list_workspaces, prune_workspaces

_HEADINGS = ["RUN", "TARGET", "STATE", "CHANGED", "CREATED", "BRANCH", "PATH"]
_STATE_COLOURS = {WorkspaceState.ACTIVE: "green", WorkspaceState.KEPT: "", WorkspaceState.ABANDONED: "yellow"}
_CHANGED_WORDS = {True: "yes", False: "no", None: "–"}


def run_workspaces(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    if args.positionals:
        return _prune(args, context, handle)
    found = list_workspaces(handle.state_dir, context.environ)
    elsewhere = list_remote_branches(handle.reader) if handle.is_shared and handle.reader is not None else []
    return Output(
        json=lambda: serialize_workspaces(found, handle.now, elsewhere),
        lines=[*_workspace_lines(context.terminal, handle, found), *_remote_lines(elsewhere)],
    )


def _remote_lines(elsewhere: list[RemoteBranch]) -> Iterator[str]:
    """Name each host whose runs have left changes; only that host knows which workspaces it still has."""
    for host, branches in _group_by_host(elsewhere).items():
        yield Notice(
            f"{format_count(len(branches), 'run')} left changes on the host {printable(host)}, last on "
            f"{printable(branches[0].branch)}. List its workspaces there: herdbeat workspaces"
        )


def _group_by_host(elsewhere: list[RemoteBranch]) -> dict[str, list[RemoteBranch]]:
    hosts: dict[str, list[RemoteBranch]] = {}
    for each in elsewhere:
        hosts.setdefault(each.host, []).append(each)
    return hosts


def _prune(args: ParsedArgs, context: Context, handle: FleetHandle) -> Output:
    removed = prune_workspaces(handle.state_dir, context.environ, handle.now, all_kept=args.has(flags.ALL))
    count = f"{len(removed)} workspace{'' if len(removed) == 1 else 's'}"
    lines = [
        *(printable(each.path) for each in removed),
        Notice(f"Removed {count}." if removed else "Nothing to remove."),
    ]
    return Output(json=lambda: serialize_workspaces(removed, handle.now), lines=lines, is_compact=True)


def _workspace_lines(terminal: Terminal, handle: FleetHandle, found: list[Workspace]) -> Iterator[str]:
    if not found:
        yield Notice("No workspaces on this host.")
        return
    rows = [_workspace_row(terminal, handle, each) for each in found]
    yield from terminal.format_table([_HEADINGS, *rows], shrink=(5, 6))


def _workspace_row(terminal: Terminal, handle: FleetHandle, workspace: Workspace) -> list[str]:
    colour = _STATE_COLOURS[workspace.state]
    return [
        workspace.run,
        printable(workspace.target),
        terminal.style(workspace.state, colour) if colour else workspace.state,
        _CHANGED_WORDS[workspace.changed],
        format_time(workspace.created_at, handle.now, handle.zone),
        printable(workspace.branch),
        printable(workspace.path),
    ]
