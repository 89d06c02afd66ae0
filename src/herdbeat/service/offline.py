"""Writing while nothing runs: under the state lock, so that no `up` can begin in the middle of it."""

from collections.abc import Callable
from typing import TypeVar

from herdbeat.store.base import Transaction
from herdbeat.store.opening import alone_at, store_at
from herdbeat.store.places import LedgerPlace

T = TypeVar("T")


def write_offline(path: LedgerPlace, work: Callable[[Transaction], T]) -> T:
    """Raises Conflict if something runs there."""
    with alone_at(path):
        store = store_at(path)
        store.open()
        try:
            return store.write_now(work)
        finally:
            store.close()
