"""The readers of a ledger in a database: the same questions as of a file, in the words of PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import RLock
from typing import Any, TypeVar

import psycopg
from psycopg import ClientCursor

from herdbeat.clock import Clock, OffsetClock
from herdbeat.errors import StoreUnavailable
from herdbeat.store.location import PostgresLocation
from herdbeat.store.microseconds import from_micros
from herdbeat.store.postgres.connection import PostgresConnector, connect
from herdbeat.store.postgres.errors import display_url, is_statement_error, to_store_unavailable
from herdbeat.store.postgres.migrate import is_migrated, require_readable_ledger
from herdbeat.store.postgres.statements import load_translated_statements
from herdbeat.store.reader import QUERY_READER_SQL_FILES as LOOKED_FOR
from herdbeat.store.reader import READER_SQL_FILES as ASKED
from herdbeat.store.reader import QueryReader, Reader

# Questions to a ledger in a database, on a connection of their own that cannot change anything.


T = TypeVar("T")

READ_TIMEOUT = timedelta(seconds=30)
"""How long one question may take. People who look are no reason to keep old rows alive for the writers."""

# Said with every question, in the same breath, and forgotten after it. Once it was said to the connection, for good: a
# pooler gave that connection to a node next, which could not write any more.
_READ_ONLY_PREFIX = (
    "SELECT set_config('transaction_read_only', 'on', true), set_config('statement_timeout', '"
    f"{READ_TIMEOUT // timedelta(milliseconds=1)}', true); "
).encode()


class PostgresReadConnection:
    """Values are put into the text by the driver: what is not asked for is then seen to be so when it is planned.

    A connection that was lost between two questions is made again. Raises StoreUnavailable if that cannot be.
    """

    def __init__(self, location: PostgresLocation, *files: str) -> None:
        self._connector = PostgresConnector(location.url, timeout=READ_TIMEOUT, use_prepared=False)
        self._sql_by_name = load_translated_statements(*files)
        self._is_in_snapshot = False
        self._lock = RLock()
        try:
            self._run(require_readable_ledger)
        except StoreUnavailable:
            self.close()
            raise

    def query(self, statement: str, values: dict[str, object]) -> list[Any]:
        return self._run(lambda connection: self._execute(connection, statement, values).fetchall())

    def query_one(self, statement: str, values: dict[str, object]) -> Any:
        return self._run(lambda connection: self._execute(connection, statement, values).fetchone())

    def query_all(self, statement: str, values: dict[str, object]) -> list[Any]:
        return self.query(statement, values)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self._run(lambda connection: connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        self._is_in_snapshot = True
        try:
            yield
        finally:
            self._is_in_snapshot = False
            if self._connector.is_connected:
                self._run(lambda connection: connection.execute("ROLLBACK"))

    def like_pattern(self, name: str) -> str:
        for letter in "\\%_":
            name = name.replace(letter, f"\\{letter}")
        return name.replace("*", "%")

    def close(self) -> None:
        self._connector.disconnect()

    def _execute(
        self, connection: psycopg.Connection[Any], statement: str, values: dict[str, object]
    ) -> psycopg.Cursor[Any]:
        answer = ClientCursor(connection).execute(_READ_ONLY_PREFIX + self._sql_by_name[statement].text, values)
        answer.nextset()
        return answer

    def _run(self, action: Callable[[psycopg.Connection[Any]], T]) -> T:
        with self._lock:  # a node prepares its runs in a thread, and looks things up itself
            return self._run_with_retry(action)

    def _run_with_retry(self, action: Callable[[psycopg.Connection[Any]], T]) -> T:
        try:
            return self._run_once(action)
        except psycopg.Error as error:
            if self._connector.is_connected or self._is_in_snapshot:
                if is_statement_error(error):
                    raise
                raise to_store_unavailable(self._connector.location, error) from error
        try:  # the server was restarted since the last question, or a pooler has closed what stood idle
            return self._run_once(action)
        except psycopg.Error as error:
            raise to_store_unavailable(self._connector.location, error) from error

    def _run_once(self, action: Callable[[psycopg.Connection[Any]], T]) -> T:
        return action(self._connector.get())


POSTGRES_READER_SQL_FILE = "postgres/questions"
"""What has to be said otherwise here."""

CLOCK_SQL_FILES = ("postgres/fleet",)


def open_postgres_reader(location: PostgresLocation) -> Reader:
    return Reader(PostgresReadConnection(location, *ASKED, POSTGRES_READER_SQL_FILE))


def open_postgres_query_reader(location: PostgresLocation) -> QueryReader:
    return QueryReader(PostgresReadConnection(location, *LOOKED_FOR, POSTGRES_READER_SQL_FILE))


def has_postgres_ledger(location: PostgresLocation) -> bool:
    with connect(location.url, timeout=READ_TIMEOUT) as connection:
        return is_migrated(connection)


def read_database_clock(location: PostgresLocation, own: Clock) -> OffsetClock | None:
    """The time of the database by our own clock; None if there is no ledger.

    The way to the server counts half, as it lies before and behind the answer. Connecting does not count.
    """
    try:
        with connect(location.url, timeout=READ_TIMEOUT) as connection:
            if not is_migrated(connection):
                return None
            asked_at = own.now()
            row = connection.execute(load_translated_statements(*CLOCK_SQL_FILES)["database_time"].text).fetchone()
            answered_at = own.now()
    except psycopg.Error as error:
        raise to_store_unavailable(display_url(location.url), error) from error
    assert row is not None
    return OffsetClock(base=own, offset=from_micros(row[0]) - (asked_at + (answered_at - asked_at) / 2))
