"""Getting something done, whoever is there: by the fleet that runs, or by ourselves where nothing runs."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from herdbeat.errors import Conflict
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.local.client import NotRunning, send_request

LOCK_TIMEOUT_S = 5.0
"""Seconds to wait for another command that is just writing into the same ledger."""

POLL_INTERVAL_S = 0.05

ResultT = TypeVar("ResultT")


def dispatch_request(
    handle: FleetHandle, request: Mapping[str, object], offline: Callable[[], ResultT]
) -> tuple[dict[str, Any] | ResultT, bool]:
    """The answer, and whether anybody acts on it now: the fleet that gave it, or nodes elsewhere that share the ledger.

    Raises Conflict if somebody holds the ledger and does not answer.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            return send_request(handle.state_dir, request), True
        except NotRunning:
            pass
        try:
            return offline(), handle.is_shared and handle.holder_pid is not None
        except Conflict:
            # Somebody came between the question and the lock: `up`, which answers next time, or a command like this.
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_INTERVAL_S)
