"""Questions about the whole ledger in a database, each on a connection of its own, so any thread may ask."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, LiteralString, TypeVar

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.audit import SqlAudit
from herdbeat.store.base import Transaction
from herdbeat.store.places import PostgresPlace
from herdbeat.store.postgres.connecting import connect
from herdbeat.store.postgres.faults import place_of, unavailable
from herdbeat.store.postgres.ledger import PostgresLedger
from herdbeat.store.postgres.statements import PostgresStatements

T = TypeVar("T")

PATIENCE = timedelta(minutes=5)
_MOST = 100
_LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresAudit(SqlAudit):
    def __init__(self, place: PostgresPlace) -> None:
        self.place = place

    def peek(self, look: Callable[[Transaction], T]) -> T:
        """Without any locks, so what it sees may be half of what a node is writing: look again before you mend."""
        with self._statements() as statements:
            return look(PostgresLedger(statements, timedelta(0), locks=False))

    def damage(self) -> list[str]:
        """Rows that point at nothing. What lies below the tables is the server's own business; never raises."""
        try:
            with self._statements() as statements:
                return list(statements.ask("lost_rows", limit=_MOST))
        except StoreUnavailable as error:
            return [error.message]

    def try_writing(self) -> None:
        """Raises StoreUnavailable if the server takes no more rows: it is full, read-only, or not for this user."""
        with self._connected("BEGIN") as connection:
            PostgresStatements(connection, place_of(self.place.url)).do("try_writing")

    @contextmanager
    def _statements(self) -> Iterator[PostgresStatements]:
        with self._connected() as connection:
            yield PostgresStatements(connection, place_of(self.place.url))

    @contextmanager
    def _connected(self, begin: LiteralString = _LOOK) -> Iterator[psycopg.Connection[Any]]:
        """Closed without a commit: whatever is done here is as if it had not been."""
        connection = connect(self.place.url, patience=PATIENCE)
        try:
            connection.execute(begin)
            yield connection
        except psycopg.Error as error:
            raise unavailable(place_of(self.place.url), error) from error
        finally:
            connection.close()
