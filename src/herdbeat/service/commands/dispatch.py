"""Writing while nothing runs: under the state lock, so that no `up` can begin in the middle of it."""

from collections.abc import Callable
from typing import TypeVar

from herdbeat.store.base import Transaction
from herdbeat.store.location import StoreLocation, create_store, exclusive_lock

T = TypeVar("T")


def write_offline(path: StoreLocation, work: Callable[[Transaction], T]) -> T:
    """Raises Conflict if something runs there."""
    with exclusive_lock(path):
        store = create_store(path)
        store.open()
        try:
            return store.write_now(work)
        finally:
            store.close()
