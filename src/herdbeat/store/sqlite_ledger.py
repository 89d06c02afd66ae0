"""The transaction of the SQLite store. One process writes, so it counts the ids by itself."""

import sqlite3

from herdbeat.store.ledger import SqlLedger
from herdbeat.store.sqlite_statements import SqliteStatements


class SqliteLedger(SqlLedger):
    def __init__(self, connection: sqlite3.Connection) -> None:
        statements = SqliteStatements(connection)
        super().__init__(statements)
        self._last_beat, self._last_run = statements.ask_one("last_ids")

    def _beat_numbers(self, number: int) -> list[int]:
        first = self._last_beat + 1
        self._last_beat += number
        return list(range(first, first + number))

    def _run_numbers(self, number: int) -> list[int]:
        first = self._last_run + 1
        self._last_run += number
        return list(range(first, first + number))
