"""Getting something done, whoever is there: by the fleet that runs, or by ourselves where nothing runs."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from herdbeat.errors import Conflict
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.local.client import NobodyThere, ask

PATIENCE = 5.0
"""Seconds to wait for another command that is just writing into the same ledger."""

LOOK = 0.05

T = TypeVar("T")


def reach(ledger: Ledger, request: Mapping[str, object], offline: Callable[[], T]) -> tuple[dict[str, Any] | T, bool]:
    """The answer, and whether anybody acts on it now: the fleet that gave it, or nodes elsewhere that share the ledger.

    Raises Conflict if somebody holds the ledger and does not answer.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask(ledger.state_dir, request), True
        except NobodyThere:
            pass
        try:
            return offline(), ledger.is_shared and ledger.holder is not None
        except Conflict:
            # Somebody came between the question and the lock: `up`, which answers next time, or a command like this.
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK)
