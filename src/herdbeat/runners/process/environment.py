"""The environment of a child process: a small base list, the variables its target names, and the marks of its run."""

from collections.abc import Iterator, Mapping

from herdbeat.domain.ids import format_short_id
from herdbeat.runners.base import Job

BASE_VARIABLES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "TERM"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}
)
"""Enough for a program to find its files, its language and other programs. None of them is a secret."""

NODE_VARIABLE = "HERDBEAT_NODE"
RUN_VARIABLE = "HERDBEAT_RUN"


def build_child_environment(
    node_environ: Mapping[str, str], env_names: tuple[str, ...], values: Mapping[str, str], job: Job, node: str
) -> dict[str, str]:
    """Return the whole environment of a child. Values of the target override the node's; the marks override both."""
    inherited = {
        name: value
        for name, value in node_environ.items()
        if name in BASE_VARIABLES or name.startswith("LC_") or name in env_names
    }
    return {**inherited, **values, **run_variables(job, node)}


def find_missing_variables(node_environ: Mapping[str, str], env_names: tuple[str, ...]) -> Iterator[str]:
    """Return the variables that a target names and the node does not have."""
    return (name for name in env_names if name not in node_environ)


def run_variables(job: Job, node: str) -> dict[str, str]:
    """Return the marks of a run: by them a child can recognize a repeated beat, and the reaper finds the child."""
    claim = job.claim
    return {
        "HERDBEAT_SCHEDULE": claim.label,
        "HERDBEAT_BEAT": job.beat_key,
        RUN_VARIABLE: format_short_id(claim.run_id),
        "HERDBEAT_ATTEMPT": str(claim.attempt),
        "HERDBEAT_DUE_AT": claim.due_at.isoformat().replace("+00:00", "Z"),
        "HERDBEAT_FENCE": str(job.fence),
        NODE_VARIABLE: node,
    }
