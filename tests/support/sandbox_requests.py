"""A request to confine a program, of which a test changes what it is about."""

from dataclasses import replace
from typing import Any

from herdbeat.domain.isolation import IsolationSpec, IsolationType
from herdbeat.runners.agents.isolation.base import SandboxRequest

REQUEST = SandboxRequest(
    run="7f3k",
    target="scout",
    node="abc.1.2",
    store_id="5e1f",
    spec=IsolationSpec(type=IsolationType.BWRAP),
    argv=("/usr/bin/claude", "-p", "--model", "a b"),
    environment={"PATH": "/usr/bin", "HOME": "/home/ada", "TOKEN": "s3cret", "HERDBEAT_RUN": "7f3k"},
    folder="/srv/app/docs",
    workspace="/srv/app",
    home="/data/homes/scout",
)


def request(**changes: Any) -> SandboxRequest:
    return replace(REQUEST, **changes)


def find_values(argv: tuple[str, ...], option: str, count: int = 1) -> list[tuple[str, ...]]:
    """Return what follows each occurrence of an option."""
    return [argv[at + 1 : at + 1 + count] for at, word in enumerate(argv) if word == option]
