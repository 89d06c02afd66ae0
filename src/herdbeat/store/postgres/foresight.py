"""What a transaction is going to ask, asked as soon as it can be: the answers then come along with another one."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from herdbeat.store.postgres.statements import PostgresConnection, SentStatement


class _PendingQuery(NamedTuple):
    keys: frozenset[int]
    sent: SentStatement
    after: int


class Prefetcher:
    """For one transaction. What was not foreseen is asked in the usual way, and so is what was written over since."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._pending_ids: SentStatement | None = None
        self._beats: list[int] = []
        self._runs: list[int] = []
        self._pending: dict[str, _PendingQuery] = {}

    # ── numbers for new rows, which nobody else will ever have ──

    def reserve_ids(self, number: int) -> None:
        """So many beats may begin, each with a run. Those that do not leave a gap in the numbers."""
        self._pending_ids = self._connection.send_query("both_numbers", number=number)

    def take_beat_ids(self, number: int) -> list[int]:
        self._receive_ids()
        taken, self._beats = self._beats[:number], self._beats[number:]
        return taken + self._fetch_ids("beat_numbers", number - len(taken))

    def take_run_ids(self, number: int) -> list[int]:
        self._receive_ids()
        taken, self._runs = self._runs[:number], self._runs[number:]
        return taken + self._fetch_ids("run_numbers", number - len(taken))

    def _receive_ids(self) -> None:
        if self._pending_ids is not None:
            found = self._connection.receive(self._pending_ids)
            self._beats, self._runs = [beat for beat, _ in found], [run for _, run in found]
            self._pending_ids = None

    def _fetch_ids(self, statement: str, number: int) -> list[int]:
        return list(self._connection.query(statement, number=number)) if number else []

    # ── questions ──

    def query(self, statement: str, keys: Iterable[int], **values: object) -> None:
        wanted = frozenset(keys)
        if wanted:
            self.add(statement, wanted, self._connection.send_query(statement, wanted, **values))

    def add(self, statement: str, keys: Iterable[int], sent: SentStatement) -> None:
        """Under the name of a question whose answer this is."""
        self._pending[statement] = _PendingQuery(frozenset(keys), sent, self._connection.write_count)

    def receive(self, statement: str, keys: Iterable[int] = ()) -> Any:
        """None if just this was not foreseen, or something was written since."""
        asked = self._pending.pop(statement, None)
        if asked is None or asked.keys != frozenset(keys) or asked.after != self._connection.write_count:
            return None
        return self._connection.receive(asked.sent)
