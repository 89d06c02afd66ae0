"""The transaction of the SQLite store. One process writes, so it counts the ids by itself."""

import sqlite3

from herdbeat.store.ledger import SqlTransaction
from herdbeat.store.sqlite_statements import SqliteConnection


class SqliteTransaction(SqlTransaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        sqlite_connection = SqliteConnection(connection)
        super().__init__(sqlite_connection)
        self._last_beat, self._last_run = sqlite_connection.query_one("last_ids")

    def _next_beat_ids(self, number: int) -> list[int]:
        first = self._last_beat + 1
        self._last_beat += number
        return list(range(first, first + number))

    def _next_run_ids(self, number: int) -> list[int]:
        first = self._last_run + 1
        self._last_run += number
        return list(range(first, first + number))
