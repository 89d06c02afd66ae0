"""The client of the control socket: sends one request to the process that runs the fleet of a state directory."""

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from herdbeat.control_socket.socket_path import find_socket_path
from herdbeat.errors import Conflict, HerdbeatError, NotFound, StoreUnavailable, UsageError
from herdbeat.service.commands.base import Forbidden, KeyReused, ManagedByConfig, StaleVersion
from herdbeat.service.commands.dispatch import NotRunning
from herdbeat.store.state_lock import find_lock_holder

RESPONSE_TIMEOUT_S = 5.0
"""Seconds for an answer. A healthy process answers at once; one that is stopped, or about to end, may not."""

RETRY_INTERVAL_S = 0.05

_ERROR_TYPES: dict[str, type[HerdbeatError]] = {
    each.code: each
    for each in (
        UsageError,
        NotFound,
        Conflict,
        Forbidden,
        ManagedByConfig,
        StaleVersion,
        KeyReused,
        StoreUnavailable,
    )
}


def send_request(
    state_dir: Path, request: Mapping[str, object], timeout: float = RESPONSE_TIMEOUT_S
) -> Mapping[str, Any]:
    """Return the answer. Raises NotRunning, or the error that the other process answers with."""
    answer = _exchange_with_retry(state_dir, json.dumps(request).encode() + b"\n", time.monotonic() + timeout)
    if not answer:
        raise NotRunning(
            f"herdbeat is not running: no answer at {find_socket_path(state_dir)}.", hint="Start it: herdbeat up"
        )
    response: dict[str, Any] = json.loads(answer)
    if "problem" in response:
        problem = response["problem"]
        raise _ERROR_TYPES.get(problem["code"], HerdbeatError)(problem["detail"], hint=problem["hint"])
    return cast("Mapping[str, Any]", response["ok"])


def _exchange_with_retry(state_dir: Path, line: bytes, deadline: float) -> bytes:
    """Return b"" if nothing answers. A process that holds the lock and has no socket yet is about to start: retry."""
    while True:
        try:
            return _exchange(find_socket_path(state_dir), line, max(deadline - time.monotonic(), RETRY_INTERVAL_S))
        except OSError:
            if find_lock_holder(state_dir) is None or time.monotonic() > deadline:
                return b""
            time.sleep(RETRY_INTERVAL_S)


def _exchange(socket_path: Path, line: bytes, timeout: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(os.fspath(socket_path))
        connection.sendall(line)
        with connection.makefile("rb") as answers:
            return answers.readline()
