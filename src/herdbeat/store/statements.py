"""How the SQLite store speaks: a named statement, its rows as one JSON array, its answer as one JSON array."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from herdbeat.store.clean import clean, is_suspect
from herdbeat.store.queries import queries

dump = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


def dump_clean(value: object) -> str:
    """As JSON, without the letters that no ledger can hold."""
    text = dump(value)
    return dump(clean(value)) if is_suspect(text) else text


class Statements:
    """One connection and the statements it knows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql: Mapping[str, str] = queries("sqlite", "upkeep")

    def ask(self, name: str, rows: Iterable[object] = (), **values: object) -> Any:
        """The answer to a question; `rows` are what it asks about."""
        (answer,) = self._connection.execute(self._sql[name], {"rows": dump(list(rows)), **values}).fetchone()
        return json.loads(answer)

    def ask_one(self, name: str, **values: object) -> Any:
        """The only row of an answer that is not JSON."""
        return self._connection.execute(self._sql[name], values).fetchone()

    def tell(self, name: str, rows: Sequence[object], **values: object) -> int:
        """Write a batch; how many rows it touched. Nothing to write costs nothing."""
        if not rows:
            return 0
        return self._connection.execute(self._sql[name], {"rows": dump_clean(rows), **values}).rowcount

    def do(self, name: str, **values: object) -> int:
        """One statement without a batch; how many rows it touched."""
        return self._connection.execute(self._sql[name], values).rowcount
