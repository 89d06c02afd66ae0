"""Questions to a ledger in a database, on a connection of their own that cannot change anything."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import RLock
from typing import Any, TypeVar

import psycopg
from psycopg import ClientCursor

from herdbeat.errors import StoreUnavailable
from herdbeat.store.places import PostgresLocation
from herdbeat.store.postgres.connecting import PostgresConnector
from herdbeat.store.postgres.faults import is_statement_error, to_store_unavailable
from herdbeat.store.postgres.migrate import require_readable_ledger
from herdbeat.store.postgres.translate import load_translated_statements

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
