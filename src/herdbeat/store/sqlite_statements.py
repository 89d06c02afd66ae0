"""How the SQLite store speaks: a named statement for a whole batch, its answer as one JSON array."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from herdbeat.store.batch import Row, batches
from herdbeat.store.queries import queries
from herdbeat.store.statements import Touched, dump, dump_clean, nothing_touched

SHEETS = ("both", "sqlite", "upkeep", "requests", "changes", "spending")


class SqliteStatements:
    """One connection and the statements it knows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql: Mapping[str, str] = queries(*SHEETS)

    def ask(self, name: str, rows: Iterable[object] = (), **values: object) -> Any:
        """The answer to a question; `rows` are what it asks about."""
        (answer,) = self._connection.execute(self._sql[name], {"rows": dump(list(rows)), **values}).fetchone()
        return json.loads(answer)

    def ask_one(self, name: str, **values: object) -> Any:
        """The only row of an answer that is not JSON."""
        return self._connection.execute(self._sql[name], values).fetchone()

    def tell(self, name: str, rows: Sequence[object], **values: object) -> Touched:
        """Write a batch. Nothing to write costs nothing."""
        if not rows:
            return nothing_touched
        return partial(int, self._connection.execute(self._sql[name], {"rows": dump_clean(rows), **values}).rowcount)

    def put(self, name: str, rows: Sequence[Row], **values: object) -> Touched:
        """The same with bound values. Only for rows of numbers and our own words: foreign text may be poison."""
        if not rows:
            return nothing_touched
        before = self._connection.total_changes  # the driver has no rowcount for what begins with WITH
        for sql, bound in batches(self._sql[name], rows, values):
            self._connection.execute(sql, bound)
        return partial(int, self._connection.total_changes - before)

    def do(self, name: str, **values: object) -> Touched:
        """One statement without a batch."""
        return partial(int, self._connection.execute(self._sql[name], values).rowcount)
