"""The workspaces that runs of agents have left on this host, for the adapters."""

import platform
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from herdbeat.domain.workspace import RemoteBranch, Workspace
from herdbeat.runners.agents.workspace import open_workspaces
from herdbeat.store.reader import Reader

MAX_REMOTE_BRANCHES = 1_000


def list_workspaces(state_dir: Path, environ: Mapping[str, str]) -> list[Workspace]:
    """Return all of them, oldest first, also those that a killed node left behind."""
    return open_workspaces(state_dir, environ).list_workspaces()


def list_remote_branches(reader: Reader, limit: int = MAX_REMOTE_BRANCHES) -> list[RemoteBranch]:
    """Return the branches that runs have left on other hosts, newest first: their workspaces are listed there."""
    return reader.branches_elsewhere(platform.node(), limit)


def prune_workspaces(
    state_dir: Path, environ: Mapping[str, str], now: datetime, *, all_kept: bool = False
) -> list[Workspace]:
    """Remove those that are old enough, or all in which no run is active; return what was removed."""
    return open_workspaces(state_dir, environ).prune(now, all_kept=all_kept)
