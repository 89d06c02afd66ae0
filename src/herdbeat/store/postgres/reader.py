"""The reader of a ledger in a database, on a connection of its own that cannot change anything."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import RLock
from typing import Any, TypeVar

import psycopg
from psycopg import ClientCursor, errors

from herdbeat.clock import Clock, OffsetClock
from herdbeat.errors import ReadTimeout, StoreUnavailable
from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.connection import PostgresConnector, connect
from herdbeat.store.postgres.errors import display_url, is_statement_error, to_store_unavailable
from herdbeat.store.postgres.migrate import is_migrated, require_readable_ledger
from herdbeat.store.postgres.statements import load_statement
from herdbeat.store.reader import Reader
from herdbeat.timestamps import from_micros

T = TypeVar("T")

READ_TIMEOUT = timedelta(seconds=30)
"""How long one query may take. A slow reader keeps old row versions alive, which slows the writers."""

# Sent with every query and valid for that query only. Once it was set for the whole connection: a pooler gave that
# connection to a node next, which could not write any more.
_READ_ONLY_PREFIX = (
    "SELECT set_config('transaction_read_only', 'on', true), set_config('statement_timeout', '{milliseconds}', true); "
)


class PostgresReader(Reader):
    """The reader of a ledger in a database. Raises StoreUnavailable if the server cannot be asked.

    The driver puts values into the text, so the planner sees which filters are not given. A connection that was lost
    between two queries is made again.
    """

    def __init__(self, location: PostgresLocation) -> None:
        self._connector = PostgresConnector(location.url, timeout=READ_TIMEOUT, use_prepared=False)
        self._is_in_snapshot = False
        self._max_read: timedelta | None = None
        self._deadline = 0.0
        self._lock = RLock()
        try:
            self._run(require_readable_ledger)
        except StoreUnavailable:
            self.close()
            raise

    def _fetch(self, statement: str, values: dict[str, object]) -> tuple[Sequence[str], list[Any]]:
        self._begin_read()
        prefix = _READ_ONLY_PREFIX.format(milliseconds=self._remaining_ms()).encode()
        text = prefix + load_statement(statement).text

        def fetch(connection: psycopg.Connection[Any]) -> tuple[Sequence[str], list[Any]]:
            cursor = ClientCursor(connection).execute(text, values)
            cursor.nextset()
            return [column.name for column in cursor.description or ()], cursor.fetchall()

        return self._run(fetch)

    def _fetch_at_once(self, statement: str, ids: list[int]) -> list[Any]:
        return self._query(statement, ids=ids)

    def limit_reads(self, duration: timedelta) -> None:
        self._max_read = duration

    def _begin_read(self) -> None:
        """A snapshot is one read transaction, however many queries it has."""
        if self._max_read is not None and not self._is_in_snapshot:
            self._deadline = time.monotonic() + self._max_read.total_seconds()

    def _remaining_ms(self) -> int:
        """Return how long the next query may take; never 0, which PostgreSQL takes for no limit."""
        if self._max_read is None:
            return READ_TIMEOUT // timedelta(milliseconds=1)
        return max(1, int((self._deadline - time.monotonic()) * 1_000))

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._begin_read()
        self._run(lambda connection: connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        self._is_in_snapshot = True
        try:
            yield
        finally:
            self._is_in_snapshot = False
            if self._connector.is_connected:
                self._run(lambda connection: connection.execute("ROLLBACK"))

    def _like_pattern(self, name: str) -> str:
        for letter in "\\%_":
            name = name.replace(letter, f"\\{letter}")
        return name.replace("*", "%")

    def close(self) -> None:
        self._connector.disconnect()

    def _run(self, action: Callable[[psycopg.Connection[Any]], T]) -> T:
        with self._lock:  # a node prepares its runs in a thread, and looks things up itself
            try:
                return action(self._connector.get())
            except psycopg.Error as error:
                if isinstance(error, errors.QueryCanceled) and self._max_read is not None:
                    raise ReadTimeout(self._max_read.total_seconds()) from error
                if self._connector.is_connected or self._is_in_snapshot:
                    if is_statement_error(error):
                        raise
                    raise to_store_unavailable(self._connector.location, error) from error
            try:  # the server was restarted since the last query, or a pooler has closed an idle connection
                return action(self._connector.get())
            except psycopg.Error as error:
                raise to_store_unavailable(self._connector.location, error) from error


def has_postgres_ledger(location: PostgresLocation) -> bool:
    with connect(location.url, timeout=READ_TIMEOUT) as connection:
        return is_migrated(connection)


def read_database_clock(location: PostgresLocation, own: Clock) -> OffsetClock | None:
    """Return a clock that follows the database's time; None if there is no ledger.

    Half of the round trip lies before the server's answer. Connecting does not count.
    """
    try:
        with connect(location.url, timeout=READ_TIMEOUT) as connection:
            if not is_migrated(connection):
                return None
            asked_at = own.now()
            row = connection.execute(load_statement("database_time").text).fetchone()
            answered_at = own.now()
    except psycopg.Error as error:
        raise to_store_unavailable(display_url(location.url), error) from error
    assert row is not None
    return OffsetClock(base=own, offset=from_micros(row[0]) - (asked_at + (answered_at - asked_at) / 2))
