"""Workspaces: the folder in which a run of an agent works, and what is known about one that was made for a run."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

BRANCH_PREFIX = "herdbeat"


class WorkspaceType(StrEnum):
    """Where a run works: in the working directory that all runs share, or in a git worktree of its own."""

    SHARED = "shared"
    WORKTREE = "worktree"


class KeepPolicy(StrEnum):
    """Which workspaces stay after their run."""

    CHANGED = "changed"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpec:
    """What a user chose: the kind of workspace, the commit it starts from, and how long it stays."""

    type: WorkspaceType = WorkspaceType.SHARED
    base: str = "HEAD"
    keep: KeepPolicy = KeepPolicy.CHANGED
    prune_after: timedelta = timedelta(days=7)


class WorkspaceState(StrEnum):
    ACTIVE = "active"  # its run works in it
    KEPT = "kept"
    ABANDONED = "abandoned"  # its node was killed, and nobody has looked at it since


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A worktree that was made for one run. Times are UTC; `base` is the commit it was made from.

    `changed` is None while nobody has looked: during the run, and after its node was killed. With `is_clone`, it is a
    repository of its own, because its run was isolated; its branch was copied to `repository` when the run ended.
    """

    run: str
    target: str
    path: str
    branch: str
    repository: str
    base: str
    host: str
    created_at: datetime
    prune_after: timedelta
    keep: KeepPolicy = KeepPolicy.CHANGED
    is_clone: bool = False
    state: WorkspaceState = WorkspaceState.ACTIVE
    changed: bool | None = None
    ended_at: datetime | None = None

    def is_prunable(self, now: datetime) -> bool:
        """True if it is old enough to be removed. One whose run is active never is."""
        if self.state is WorkspaceState.ACTIVE:
            return False
        return now - (self.ended_at or self.created_at) >= self.prune_after


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBranch:
    """Changes that a run has left on another host. Whether its workspace is still there, only that host knows."""

    run_id: int
    target: str
    branch: str
    host: str


def branch_name(target: str, run: str) -> str:
    """Return the branch of a run. A target of a sub-fleet has dots in its name, which git allows inside a part."""
    return f"{BRANCH_PREFIX}/{target}/{run}"
