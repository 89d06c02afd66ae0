"""Queries about the whole ledger: damage, inconsistencies, and what has become too old.

They read whole tables, so they have a connection of their own: it sees one moment, and never blocks the writer.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from herdbeat.errors import StoreUnavailable
from herdbeat.store.base import InconsistencyCandidates, Transaction
from herdbeat.store.location import StoreLocation
from herdbeat.store.sanitize import decode_lossy
from herdbeat.store.sqlite.connection import SqliteConnection, to_store_unavailable
from herdbeat.store.sqlite.store import SqliteTransaction
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros

T = TypeVar("T")

AUDIT_PAGE_ROWS = 200
"""Candidates that are checked in one transaction of the writer."""

_MAX_DAMAGE_LINES = 100
"""Damaged places that are listed."""


class LedgerAudit(ABC):
    """Queries about the whole ledger, which both dialects share. Any thread may call them."""

    location: StoreLocation

    @abstractmethod
    def read_transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run work that only reads. What it writes is refused, or undone."""

    @abstractmethod
    def damage(self) -> list[str]:
        """Return what is wrong with the rows or the file; empty is good. Never raises."""

    @abstractmethod
    def _open_connection(self) -> AbstractContextManager[Connection]:
        """Open a connection for one query, which sees one moment."""

    def find_inconsistencies(
        self, now: datetime, after: int = 0, *, only_schedules: bool = False
    ) -> InconsistencyCandidates:
        """Return a page of schedules, and all other candidates."""
        with self._open_connection() as connection:
            schedules: list[int] = connection.query("suspect_schedules", after=after, limit=AUDIT_PAGE_ROWS)
            last = schedules[-1] if len(schedules) == AUDIT_PAGE_ROWS else None
            if only_schedules:
                return InconsistencyCandidates(schedules, [], [], [], last)
            blocked = connection.query("targets_with_waiting")
            stalled = [row[0] for row in connection.query("stalled_targets", blocked, now=to_micros(now))]
            targets = connection.query("suspect_targets", limit=AUDIT_PAGE_ROWS)
            beats = connection.query("suspect_beats", limit=AUDIT_PAGE_ROWS)
            return InconsistencyCandidates(schedules, targets, stalled[:AUDIT_PAGE_ROWS], beats, last)

    def quarantined(self) -> list[tuple[str, str]]:
        with self._open_connection() as connection:
            return [(label, reason) for label, reason in connection.query("quarantined_schedules")]

    def old_beats(self, before: datetime, kept_since: datetime, limit: int) -> list[int]:
        with self._open_connection() as connection:
            cut, since = to_micros(before), to_micros(kept_since)
            return list(connection.query("old_beats", before=cut, kept_since=since, limit=limit))

    def surplus_beats(self, most: int, kept_since: datetime) -> Iterator[list[int]]:
        """Yield the ids of the beats of each schedule beyond its newest `most`, schedule by schedule."""
        with self._open_connection() as connection:
            for schedule in connection.query("schedules_with_surplus_beats", most=most):
                yield connection.query("surplus_beats", schedule=schedule, most=most, kept_since=to_micros(kept_since))

    def unused_plans(self, limit: int) -> list[int]:
        with self._open_connection() as connection:
            return list(connection.query("unused_plans", limit=limit))

    def oldest_open_run(self) -> datetime | None:
        with self._open_connection() as connection:
            claimed_at: int | None = connection.query_one("oldest_open_run")[0]
            return from_micros(claimed_at)

    def count_old_changes(self, before: datetime, most: int) -> int:
        with self._open_connection() as connection:
            return int(connection.query_one("old_changes", before=to_micros(before), most=most)[0])

    def count_ended_hints(self, before: datetime) -> int:
        with self._open_connection() as connection:
            return int(connection.query_one("ended_hints", before=to_micros(before))[0])


class SqliteAudit(LedgerAudit):
    """Opens the file for each query, so any thread may call it."""

    def __init__(self, path: Path) -> None:
        self.path = self.location = path

    def read_transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run work that only reads. What it tries to write is refused."""
        with self._open_raw_connection() as connection:
            return work(SqliteTransaction(connection))

    def damage(self) -> list[str]:
        """Return what SQLite reports about the file, and dangling rows. Empty is good; never raises."""
        try:
            with self._open_raw_connection() as connection:
                lines = connection.execute(f"PRAGMA integrity_check({_MAX_DAMAGE_LINES})").fetchall()
                dangling = connection.execute("PRAGMA foreign_key_check").fetchmany(_MAX_DAMAGE_LINES)
        except StoreUnavailable as error:
            return [error.message]
        damage = [line for (line,) in lines if line != "ok"]
        return damage + [f"row {row} of {table} points at a missing row of {of}" for table, row, of, _ in dangling]

    @contextmanager
    def _open_connection(self) -> Iterator[SqliteConnection]:
        with self._open_raw_connection() as connection:
            yield SqliteConnection(connection)

    @contextmanager
    def _open_raw_connection(self) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            where = f"{self.path.absolute().as_uri()}?mode=ro"
            connection = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
            connection.text_factory = decode_lossy
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise to_store_unavailable(self.path, error) from error
        finally:
            if connection is not None:
                connection.close()
