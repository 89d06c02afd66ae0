"""Questions to a ledger in a file, beside the writer: they never hold it up."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from herdbeat.store.clean import decode_lossy
from herdbeat.store.queries import load_statements
from herdbeat.store.sqlite_faults import to_store_unavailable

_PROGRAMMING_ERRORS = (sqlite3.ProgrammingError, sqlite3.InterfaceError)


class SqliteReadConnection:
    """Raises StoreUnavailable if the file cannot be opened, or is found to be damaged by a question."""

    def __init__(self, path: Path, *files: str) -> None:
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            self._connection.text_factory = decode_lossy
            self._connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise to_store_unavailable(path, error) from error
        self._path = path
        self._sql = load_statements(*files)

    def query(self, statement: str, values: dict[str, object]) -> Iterable[Any]:
        with self._translate_errors():
            yield from self._connection.execute(self._sql[statement], _dump_lists(values))

    def query_one(self, statement: str, values: dict[str, object]) -> Any:
        with self._translate_errors():
            return self._connection.execute(self._sql[statement], _dump_lists(values)).fetchone()

    def query_all(self, statement: str, values: dict[str, object]) -> list[Any]:
        (found,) = self.query_one(statement, values)
        rows: list[Any] = json.loads(found)
        return rows

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """A damaged file is noticed by the first question, not by opening it."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if isinstance(error, _PROGRAMMING_ERRORS):
                raise
            raise to_store_unavailable(self._path, error) from error

    def like_pattern(self, name: str) -> str:
        return "".join(f"[{letter}]" if letter in "[?" else letter for letter in name)

    def close(self) -> None:
        self._connection.close()


def _dump_lists(values: dict[str, object]) -> dict[str, object]:
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}
