"""How the SQLite store speaks: a named statement for a whole batch, its answer as one JSON array."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from herdbeat.store.batch import Row, split_batches
from herdbeat.store.queries import load_statements
from herdbeat.store.statements import RowCount, dump_json, dump_sanitized, zero_rows

WRITER_SQL_FILES = ("both", "sqlite", "upkeep", "requests", "changes", "spending")


class SqliteConnection:
    """One connection and the statements it knows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql: Mapping[str, str] = load_statements(*WRITER_SQL_FILES)

    def query(self, name: str, rows: Iterable[object] = (), **values: object) -> Any:
        """The answer to a question; `rows` are what it asks about."""
        (answer,) = self._connection.execute(self._sql[name], {"rows": dump_json(list(rows)), **values}).fetchone()
        return json.loads(answer)

    def query_one(self, name: str, **values: object) -> Any:
        """The only row of an answer that is not JSON."""
        return self._connection.execute(self._sql[name], values).fetchone()

    def execute_many(self, name: str, rows: Sequence[object], **values: object) -> RowCount:
        """Write a batch. Nothing to write costs nothing."""
        if not rows:
            return zero_rows
        return partial(
            int, self._connection.execute(self._sql[name], {"rows": dump_sanitized(rows), **values}).rowcount
        )

    def execute_values(self, name: str, rows: Sequence[Row], **values: object) -> RowCount:
        """The same with bound values. Only for rows of numbers and our own words: foreign text may be poison."""
        if not rows:
            return zero_rows
        before = self._connection.total_changes  # the driver has no rowcount for what begins with WITH
        for sql, bound in split_batches(self._sql[name], rows, values):
            self._connection.execute(sql, bound)
        return partial(int, self._connection.total_changes - before)

    def execute(self, name: str, **values: object) -> RowCount:
        """One statement without a batch."""
        return partial(int, self._connection.execute(self._sql[name], values).rowcount)
