"""The workspaces that runs of agents have left on this host, for the adapters."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from herdbeat.domain.workspace import Workspace
from herdbeat.runners.agents.workspace import open_workspaces


def list_workspaces(state_dir: Path, environ: Mapping[str, str]) -> list[Workspace]:
    """Return all of them, oldest first, also those that a killed node left behind."""
    return open_workspaces(state_dir, environ).list_workspaces()


def prune_workspaces(
    state_dir: Path, environ: Mapping[str, str], now: datetime, *, all_kept: bool = False
) -> list[Workspace]:
    """Remove those that are old enough, or all in which no run is active; return what was removed."""
    return open_workspaces(state_dir, environ).prune(now, all_kept=all_kept)
