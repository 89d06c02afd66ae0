"""What a child may see of our environment: a small base list, what its target names, and who it runs for."""

from collections.abc import Iterator, Mapping

from herdbeat.domain.ids import short_id
from herdbeat.runners.base import Job

BASE = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TZDIR",
        "TMPDIR",
        "TERM",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    }
)
"""Enough for a program to find its files, its language and other programs; nothing of it is a secret."""

NODE = "HERDBEAT_NODE"
RUN = "HERDBEAT_RUN"


def child_environment(
    ours: Mapping[str, str], named: tuple[str, ...], values: Mapping[str, str], job: Job, node: str
) -> dict[str, str]:
    """The whole environment of a child. What the target sets beats what we have; who it runs for beats both."""
    taken = {name: value for name, value in ours.items() if name in BASE or name.startswith("LC_") or name in named}
    return {**taken, **values, **identity(job, node)}


def missing(ours: Mapping[str, str], named: tuple[str, ...]) -> Iterator[str]:
    """The names a target asked for that we do not have."""
    return (name for name in named if name not in ours)


def identity(job: Job, node: str) -> dict[str, str]:
    """What a child needs to do its work only once, and we need to find it again (SEMANTICS 24, 25)."""
    claim = job.claim
    return {
        "HERDBEAT_SCHEDULE": claim.label,
        "HERDBEAT_BEAT": job.beat_key,
        RUN: short_id(claim.run_id),
        "HERDBEAT_ATTEMPT": str(claim.attempt),
        "HERDBEAT_DUE_AT": claim.due_at.isoformat().replace("+00:00", "Z"),
        "HERDBEAT_FENCE": str(job.fence),
        NODE: node,
    }
