"""The asking side: a command that wants something of the herdbeat that runs in a state directory."""

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from herdbeat.codes import Code
from herdbeat.errors import Conflict, HerdbeatError, NotFound, UsageError
from herdbeat.faces.local.place import find_socket
from herdbeat.store.lock import holder_of

PATIENCE = 5.0
"""Seconds for an answer. Whoever is there answers at once; this is for who is stopped, or just going."""

LOOK = 0.05

_ERRORS: dict[str, type[HerdbeatError]] = {each.code: each for each in (UsageError, NotFound, Conflict)}


class NobodyThere(HerdbeatError):
    """Nothing answers at the socket: nothing runs there, or it is just starting or going."""

    code = Code.SCHEDULER


def ask(state_dir: Path, request: Mapping[str, object], *, patience: float = PATIENCE) -> dict[str, Any]:
    """What `ok` says. Raises NobodyThere, or the error that the other side has met."""
    answer = _answered(state_dir, json.dumps(request).encode() + b"\n", time.monotonic() + patience)
    if not answer:
        raise NobodyThere(f"Nothing answers at {find_socket(state_dir)}.", hint="Start it with: herdbeat up")
    said: dict[str, Any] = json.loads(answer)
    if "problem" in said:
        problem = said["problem"]
        raise _ERRORS.get(problem["code"], HerdbeatError)(problem["detail"], hint=problem["hint"])
    found: dict[str, Any] = said["ok"]
    return found


def _answered(state_dir: Path, line: bytes, deadline: float) -> bytes:
    """Empty if nobody answers. Who holds the lock but has no socket yet is just starting: it is asked again."""
    while True:
        try:
            return _exchange(find_socket(state_dir), line, max(deadline - time.monotonic(), LOOK))
        except OSError:
            if holder_of(state_dir) is None or time.monotonic() > deadline:
                return b""
            time.sleep(LOOK)


def _exchange(place: Path, line: bytes, patience: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(patience)
        connection.connect(os.fspath(place))
        connection.sendall(line)
        with connection.makefile("rb") as answers:
            return answers.readline()
