"""The store that many nodes share: each has one writing connection in one thread, as with SQLite."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from herdbeat.store.base import Transaction
from herdbeat.store.location import DEFAULT_LEASE, PostgresLocation
from herdbeat.store.postgres.session import PostgresSession
from herdbeat.store.writer import Writer

T = TypeVar("T")


class PostgresStore:
    """A store in a database. A write is durable when it returns.

    Each write is a transaction of its own: two in one would lock their targets in any order, and nodes would deadlock.
    """

    def __init__(self, location: PostgresLocation, *, lease: timedelta = DEFAULT_LEASE) -> None:
        self.location = location
        self.lease = lease
        self._session = PostgresSession(location.url, lease=lease)
        self._writer = Writer[Transaction](self._session, name="herdbeat-writer", max_group_size=1)

    def open(self) -> None:
        """Raises StoreUnavailable if the server is away or refuses us, or the ledger is newer than this program."""
        self._writer.start()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self._writer.write(work)

    def write_now(self, work: Callable[[Transaction], T]) -> T:
        return self._writer.write_now(work)

    def abandon_node(self) -> None:
        self._session.abandon_node()

    def close(self) -> None:
        self._writer.stop()
