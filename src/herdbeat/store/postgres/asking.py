"""Questions to a ledger in a database, on a connection of their own that cannot change anything."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import RLock
from typing import Any, TypeVar

import psycopg
from psycopg import ClientCursor

from herdbeat.errors import StoreUnavailable
from herdbeat.store.places import PostgresPlace
from herdbeat.store.postgres.connecting import Connecting
from herdbeat.store.postgres.faults import is_about_the_work, unavailable
from herdbeat.store.postgres.migrate import refuse_foreign
from herdbeat.store.postgres.translate import statements

T = TypeVar("T")

PATIENCE = timedelta(seconds=30)
"""How long one question may take. People who look are no reason to keep old rows alive for the writers."""

# Said with every question, in the same breath, and forgotten after it. Once it was said to the connection, for good: a
# pooler gave that connection to a node next, which could not write any more.
_ONLY_LOOK = (
    "SELECT set_config('transaction_read_only', 'on', true), set_config('statement_timeout', '"
    f"{PATIENCE // timedelta(milliseconds=1)}', true); "
).encode()


class PostgresAsking:
    """Values are put into the text by the driver: what is not asked for is then seen to be so when it is planned.

    A connection that was lost between two questions is made again. Raises StoreUnavailable if that cannot be.
    """

    def __init__(self, place: PostgresPlace, *sheets: str) -> None:
        self._connecting = Connecting(place.url, patience=PATIENCE, prepares=False)
        self._known = statements(*sheets)
        self._is_in_one_moment = False
        self._lock = RLock()
        try:
            self._ask(refuse_foreign)
        except StoreUnavailable:
            self.close()
            raise

    def rows(self, question: str, values: dict[str, object]) -> list[Any]:
        return self._ask(lambda connection: self._put(connection, question, values).fetchall())

    def row(self, question: str, values: dict[str, object]) -> Any:
        return self._ask(lambda connection: self._put(connection, question, values).fetchone())

    def whole(self, question: str, values: dict[str, object]) -> list[Any]:
        return self.rows(question, values)

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        self._ask(lambda connection: connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        self._is_in_one_moment = True
        try:
            yield
        finally:
            self._is_in_one_moment = False
            if self._connecting.is_there:
                self._ask(lambda connection: connection.execute("ROLLBACK"))

    def pattern(self, name: str) -> str:
        for letter in "\\%_":
            name = name.replace(letter, f"\\{letter}")
        return name.replace("*", "%")

    def close(self) -> None:
        self._connecting.drop()

    def _put(
        self, connection: psycopg.Connection[Any], question: str, values: dict[str, object]
    ) -> psycopg.Cursor[Any]:
        answer = ClientCursor(connection).execute(_ONLY_LOOK + self._known[question].text, values)
        answer.nextset()
        return answer

    def _ask(self, put: Callable[[psycopg.Connection[Any]], T]) -> T:
        with self._lock:  # a node prepares its runs in a thread, and looks things up itself
            return self._ask_alone(put)

    def _ask_alone(self, put: Callable[[psycopg.Connection[Any]], T]) -> T:
        try:
            return self._once(put)
        except psycopg.Error as error:
            if self._connecting.is_there or self._is_in_one_moment:
                if is_about_the_work(error):
                    raise
                raise unavailable(self._connecting.place, error) from error
        try:  # the server was restarted since the last question, or a pooler has closed what stood idle
            return self._once(put)
        except psycopg.Error as error:
            raise unavailable(self._connecting.place, error) from error

    def _once(self, put: Callable[[psycopg.Connection[Any]], T]) -> T:
        return put(self._connecting.get())
