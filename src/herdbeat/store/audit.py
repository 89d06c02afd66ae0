"""Questions about the whole ledger: is it sound, what is suspicious, what has become too old.

They read whole tables, so they have a connection of their own: it sees one moment, and the writer never waits for it.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from herdbeat.errors import StoreUnavailable
from herdbeat.store.base import Suspects, Transaction
from herdbeat.store.clean import decode
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.sqlite_faults import unavailable
from herdbeat.store.sqlite_ledger import SqliteLedger
from herdbeat.store.sqlite_statements import SqliteStatements
from herdbeat.store.statements import Statements

T = TypeVar("T")

PAGE = 200
"""Suspects looked at in one transaction of the writer."""

_MOST = 100
"""Damaged places that are named; whoever has more has seen enough."""


class SqlAudit(ABC):
    """What is asked is the same of every ledger that speaks SQL."""

    @abstractmethod
    def _statements(self) -> AbstractContextManager[Statements]:
        """A connection for one question, which sees one moment."""

    def suspects(self, now: datetime, after: int = 0, *, only_schedules: bool = False) -> Suspects:
        """A page of schedules, and everything else."""
        with self._statements() as statements:
            schedules: list[int] = statements.ask("suspect_schedules", after=after, limit=PAGE)
            last = schedules[-1] if len(schedules) == PAGE else None
            if only_schedules:
                return Suspects(schedules, [], [], [], last)
            waited_for = statements.ask("targets_with_waiting")
            deaf = [row[0] for row in statements.ask("deaf_targets", waited_for, now=to_micros(now))]
            targets, beats = statements.ask("suspect_targets", limit=PAGE), statements.ask("suspect_beats", limit=PAGE)
            return Suspects(schedules, targets, deaf[:PAGE], beats, last)

    def quarantined(self) -> list[tuple[str, str]]:
        with self._statements() as statements:
            return [(label, reason) for label, reason in statements.ask("quarantined_schedules")]

    def old_beats(self, before: datetime, kept_since: datetime, limit: int) -> list[int]:
        with self._statements() as statements:
            cut, since = to_micros(before), to_micros(kept_since)
            return list(statements.ask("old_beats", before=cut, kept_since=since, limit=limit))

    def surplus_beats(self, most: int, kept_since: datetime) -> Iterator[list[int]]:
        """The ids of what each schedule has beyond its newest so many, schedule by schedule."""
        with self._statements() as statements:
            for schedule in statements.ask("crowded_schedules", most=most):
                since = to_micros(kept_since)
                yield statements.ask("surplus_beats", schedule=schedule, most=most, kept_since=since)

    def unused_plans(self, limit: int) -> list[int]:
        with self._statements() as statements:
            return list(statements.ask("unused_plans", limit=limit))

    def oldest_open_run(self) -> datetime | None:
        with self._statements() as statements:
            claimed_at: int | None = statements.ask_one("oldest_open_run")[0]
            return from_micros(claimed_at)

    def old_changes(self, before: datetime, most: int) -> int:
        with self._statements() as statements:
            return int(statements.ask_one("old_changes", before=to_micros(before), most=most)[0])

    def ended_hints(self, before: datetime) -> int:
        with self._statements() as statements:
            return int(statements.ask_one("ended_hints", before=to_micros(before))[0])


class SqliteAudit(SqlAudit):
    """Opens the file for each question, so any thread may ask."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> Path:
        return self.path

    def peek(self, look: Callable[[Transaction], T]) -> T:
        """Let something look at the ledger that only reads. What it tries to write is refused."""
        with self._open() as connection:
            return look(SqliteLedger(connection))

    def damage(self) -> list[str]:
        """What SQLite itself says about the file, and rows that point at nothing. Empty is good; never raises."""
        try:
            with self._open() as connection:
                said = [line for (line,) in connection.execute(f"PRAGMA integrity_check({_MOST})") if line != "ok"]
                lost = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST)
        except StoreUnavailable as error:
            return [error.message]
        return said + [f"row {row} of {table} points at a missing row of {parent}" for table, row, parent, _ in lost]

    @contextmanager
    def _statements(self) -> Iterator[SqliteStatements]:
        with self._open() as connection:
            yield SqliteStatements(connection)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            where = f"{self.path.absolute().as_uri()}?mode=ro"
            connection = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
            connection.text_factory = decode
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise unavailable(self.path, error) from error
        finally:
            if connection is not None:
                connection.close()
