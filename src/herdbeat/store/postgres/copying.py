"""A ledger out of a file into a database: every row, in one transaction, counted on both sides."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from herdbeat.errors import Conflict, StoreUnavailable
from herdbeat.store.backup import Progress
from herdbeat.store.clean import decode
from herdbeat.store.places import PostgresPlace
from herdbeat.store.postgres.arrays import clean
from herdbeat.store.postgres.connecting import connect
from herdbeat.store.postgres.faults import place_of, unavailable
from herdbeat.store.postgres.migrate import migrate

TABLES = (
    "plan",
    "target",
    "schedule",
    "beat",
    "run",
    "hint",
    "gap",
    "change",
    "node",
    "budget",
    "spend",
    "reservation",
)
"""In an order in which nothing points at what is not there yet."""

PATIENCE = timedelta(minutes=5)
_STEP = 1_000

Row = tuple[Any, ...]


def copy_ledger(file: Path, place: PostgresPlace, fleet: str, progress: Progress | None = None) -> dict[str, int]:
    """How many rows of each table there are now. All of them, or, if anything goes wrong, none.

    Raises Conflict if the database holds a fleet already. The file must not be written to meanwhile.
    """
    with closing(_opened(file)) as reading:
        counts = {table: _count(reading, table) for table in TABLES}
        try:
            with connect(place.url, patience=PATIENCE) as writing:
                migrate(writing)
                with writing.transaction():
                    _refuse_taken(writing, place)
                    _copy_all(reading, writing, progress, sum(counts.values()))
                    writing.execute("INSERT INTO meta (key, value) VALUES ('fleet', %s)", [fleet])
                    _compare(writing, counts)
        except psycopg.Error as error:
            raise unavailable(place_of(place.url), error) from error
    return counts


def _opened(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = decode
    return connection


def _refuse_taken(writing: psycopg.Connection[Any], place: PostgresPlace) -> None:
    row = writing.execute("SELECT count(*) FROM target").fetchone()
    if row is not None and row[0]:
        raise Conflict(
            f"{place_of(place.url)} holds a fleet already.", hint="Copy into an empty database: createdb NAME"
        )


def _copy_all(
    reading: sqlite3.Connection, writing: psycopg.Connection[Any], progress: Progress | None, total: int
) -> None:
    before = done = 0
    for table in TABLES:
        for done in _copied(reading, writing, table, before):
            if progress is not None:
                progress(done, total)
        before = done
        _count_on(writing, table)


def _copied(reading: sqlite3.Connection, writing: psycopg.Connection[Any], table: str, done: int) -> Iterator[int]:
    """How many rows are there, again and again."""
    columns = [name for _, name, *_ in reading.execute(f"PRAGMA table_info({table})")]
    rows: Iterable[Row] = reading.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - our own names
    if table == "node":
        columns, rows = _with_lease(columns, rows)
    statement = SQL("COPY {} ({}) FROM STDIN").format(Identifier(table), SQL(", ").join(map(Identifier, columns)))
    with writing.cursor().copy(statement) as copy:
        for row in rows:
            copy.write_row([clean(value) if isinstance(value, str) else value for value in row])
            done += 1
            if done % _STEP == 0:
                yield done
    yield done


def _with_lease(columns: list[str], rows: Iterable[Row]) -> tuple[list[str], Iterator[Row]]:
    """A node of a file had no lease: it lived as long as it was seen, and none of them lives any more.

    Who has left did so before its lease was over, and who died held it to the end: so they are told apart.
    """
    seen, stopped = columns.index("seen_at"), columns.index("stopped_at")

    def ended(row: Row) -> Row:
        end = row[stopped] or row[seen]
        return (*row[:stopped], end, *row[stopped + 1 :], end + 1 if row[stopped] else end)

    return [*columns, "lease_until"], (ended(row) for row in rows)


def _count_on(writing: psycopg.Connection[Any], table: str) -> None:
    """The next row gets a number that none has had."""
    row = (
        writing.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table]).fetchone() if _is_numbered(table) else None
    )
    if row is not None:
        newest = SQL("SELECT setval(%s, (SELECT coalesce(max(id), 0) + 1 FROM {}), false)").format(Identifier(table))
        writing.execute(newest, [row[0]])


def _is_numbered(table: str) -> bool:
    return table not in ("budget", "spend", "reservation")


def _count(reading: sqlite3.Connection, table: str) -> int:
    number: int = reading.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - our own names
    return number


def _compare(writing: psycopg.Connection[Any], counts: dict[str, int]) -> None:
    for table, expected in counts.items():
        row = writing.execute(SQL("SELECT count(*) FROM {}").format(Identifier(table))).fetchone()
        if row is None or row[0] != expected:
            found = row[0] if row else 0
            hint = "Nothing was changed. Look at the file: herdbeat db check"
            raise StoreUnavailable(f"Of {table}, {found} rows arrived instead of {expected}.", hint=hint)
