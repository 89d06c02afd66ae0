"""Queries about the whole ledger in a database, each on a connection of its own, so any thread may call them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, LiteralString, TypeVar

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.audit import LedgerAudit
from herdbeat.store.base import Transaction
from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.connection import connect
from herdbeat.store.postgres.errors import display_url, to_store_unavailable
from herdbeat.store.postgres.statements import PostgresConnection
from herdbeat.store.postgres.transaction import PostgresTransaction

T = TypeVar("T")

AUDIT_TIMEOUT = timedelta(minutes=5)
_MAX_DAMAGE_LINES = 100
_BEGIN_READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresAudit(LedgerAudit):
    def __init__(self, location: PostgresLocation) -> None:
        self.location = location
        self._url = location.url

    def read_transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run work that only reads, without locks: a node may be changing what it sees. Check again before a repair."""
        with self._open_connection() as connection:
            return work(PostgresTransaction(connection, timedelta(0), locks=False))

    def damage(self) -> list[str]:
        """Return dangling rows; the server checks its files itself. Never raises."""
        try:
            with self._open_connection() as connection:
                return list(connection.query("lost_rows", limit=_MAX_DAMAGE_LINES))
        except StoreUnavailable as error:
            return [error.message]

    def check_writable(self) -> None:
        """Raises StoreUnavailable if the server takes no more rows: it is full, read-only, or not for this user."""
        with self._open_raw_connection("BEGIN") as connection:
            PostgresConnection(connection, display_url(self._url)).execute("test_write")

    @contextmanager
    def _open_connection(self) -> Iterator[PostgresConnection]:
        with self._open_raw_connection() as connection:
            yield PostgresConnection(connection, display_url(self._url))

    @contextmanager
    def _open_raw_connection(self, begin: LiteralString = _BEGIN_READ_ONLY) -> Iterator[psycopg.Connection[Any]]:
        """It is closed without a commit, so nothing that is done here stays."""
        connection = connect(self._url, timeout=AUDIT_TIMEOUT)
        try:
            connection.execute(begin)
            yield connection
        except psycopg.Error as error:
            raise to_store_unavailable(display_url(self._url), error) from error
        finally:
            connection.close()
