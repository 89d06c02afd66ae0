"""Questions to a ledger in a file, beside the writer: they never hold it up."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from herdbeat.store.clean import decode
from herdbeat.store.queries import queries
from herdbeat.store.sqlite_faults import unavailable

_OUR_MISTAKES = (sqlite3.ProgrammingError, sqlite3.InterfaceError)


class SqliteAsking:
    """Raises StoreUnavailable if the file cannot be opened, or is found to be damaged by a question."""

    def __init__(self, path: Path, *sheets: str) -> None:
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            self._connection.text_factory = decode
            self._connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise unavailable(path, error) from error
        self._path = path
        self._sql = queries(*sheets)

    def rows(self, question: str, values: dict[str, object]) -> Iterable[Any]:
        with self._readable():
            yield from self._connection.execute(self._sql[question], _dumped(values))

    def row(self, question: str, values: dict[str, object]) -> Any:
        with self._readable():
            return self._connection.execute(self._sql[question], _dumped(values)).fetchone()

    def whole(self, question: str, values: dict[str, object]) -> list[Any]:
        (found,) = self.row(question, values)
        rows: list[Any] = json.loads(found)
        return rows

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """A damaged file is noticed by the first question, not by opening it."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if isinstance(error, _OUR_MISTAKES):
                raise
            raise unavailable(self._path, error) from error

    def pattern(self, name: str) -> str:
        return "".join(f"[{letter}]" if letter in "[?" else letter for letter in name)

    def close(self) -> None:
        self._connection.close()


def _dumped(values: dict[str, object]) -> dict[str, object]:
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}
