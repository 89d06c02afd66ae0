"""The store that many nodes share: each has one writing connection in one thread, as with SQLite."""

from datetime import timedelta

from herdbeat.store.base import Transaction
from herdbeat.store.location import DEFAULT_LEASE, PostgresLocation
from herdbeat.store.postgres.session import PostgresSession
from herdbeat.store.writer import Writer


class PostgresStore(Writer[Transaction]):
    """A store in a database. A write is durable when it returns.

    Opening it raises StoreUnavailable if the server is away or refuses us, or the ledger is newer than this program.
    Each write is a transaction of its own: two in one would lock their targets in any order, and nodes would deadlock.
    """

    def __init__(self, location: PostgresLocation, *, lease: timedelta = DEFAULT_LEASE) -> None:
        self.session = PostgresSession(location.url, lease=lease)
        super().__init__(self.session, name="herdbeat-writer", max_group_size=1)
        self.location = location
        self.lease = lease

    def require_intact(self) -> None:
        """A server notices itself when its files are gone."""
