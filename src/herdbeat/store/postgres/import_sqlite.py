"""Copy a ledger from a file into a database: every row, in one transaction, counted on both sides."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from herdbeat.errors import Conflict, StoreUnavailable
from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.connection import connect
from herdbeat.store.postgres.errors import display_url, to_store_unavailable
from herdbeat.store.postgres.migrate import migrate
from herdbeat.store.sanitize import decode_lossy, sanitize_text
from herdbeat.store.sqlite.backup import CopyProgress

_AGENT_TABLES = ("agent_run", "run_cost", "session", "target_account", "attention")
_TABLES_WITHOUT_ID = (
    *("budget", "spend", "reservation", "rule_state", "agent_hint", "webhook_digest"),
    *("paused_schedule", "planner_group", "request", "run_report", "remote_run", "remote_log"),
    *_AGENT_TABLES,
)
_TABLES_WITH_ID = (
    "plan",
    "target",
    "schedule",
    "beat",
    "run",
    "hint",
    "gap",
    "change",
    "node",
    "account_hold",
    "work_claim",
    "outbox",
    "episode",
    "planner_session",
    "planned_pause",
    "token",
)
IMPORTED_TABLES = (*_TABLES_WITH_ID, *_TABLES_WITHOUT_ID)
"""In an order in which every row comes after the rows it refers to."""

NOT_IMPORTED_TABLES = frozenset({"meta", "lease", "node_metrics"})
"""What belongs to the file and its nodes, and not to the fleet."""

IMPORT_TIMEOUT = timedelta(minutes=5)
_PROGRESS_STEP_ROWS = 1_000

Row = tuple[Any, ...]


def import_sqlite_ledger(
    file: Path, location: PostgresLocation, fleet: str, progress: CopyProgress | None = None
) -> dict[str, int]:
    """Return how many rows of each table were copied: all of them, or, if anything fails, none.

    Raises Conflict if the database already contains a fleet. The file must not be written to meanwhile.
    """
    with closing(_open_source(file)) as source_db:
        count = "SELECT count(*) FROM "
        counts = {table: source_db.execute(count + table).fetchone()[0] for table in IMPORTED_TABLES}
        try:
            with connect(location.url, timeout=IMPORT_TIMEOUT) as target_db:
                migrate(target_db)
                with target_db.transaction():
                    _require_empty(target_db, location)
                    _copy_tables(source_db, target_db, progress, sum(counts.values()))
                    target_db.execute("INSERT INTO meta (key, value) VALUES ('fleet', %s)", [fleet])
                    _verify_counts(target_db, counts)
        except psycopg.Error as error:
            raise to_store_unavailable(display_url(location.url), error) from error
    return counts


def _open_source(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = decode_lossy
    return connection


def _require_empty(target_db: psycopg.Connection[Any], location: PostgresLocation) -> None:
    row = target_db.execute("SELECT count(*) FROM target").fetchone()
    if row is not None and row[0]:
        hint = "Use an empty database: createdb NAME"
        raise Conflict(f"{display_url(location.url)} already contains a fleet.", hint=hint)


def _copy_tables(
    source_db: sqlite3.Connection, target_db: psycopg.Connection[Any], progress: CopyProgress | None, total: int
) -> None:
    before = done = 0
    for table in IMPORTED_TABLES:
        for done in _copy_table(source_db, target_db, table, before):
            if progress is not None:
                progress(done, total)
        before = done
        _advance_sequence(source_db, target_db, table)


def _copy_table(
    source_db: sqlite3.Connection, target_db: psycopg.Connection[Any], table: str, done: int
) -> Iterator[int]:
    """Yield the number of rows copied so far."""
    columns = [name for _, name, *_ in source_db.execute(f"PRAGMA table_info({table})")]
    rows: Iterable[Row] = source_db.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - our own names
    if table == "node":
        columns, rows = _add_lease_column(columns, rows)
    statement = SQL("COPY {} ({}) FROM STDIN").format(Identifier(table), SQL(", ").join(map(Identifier, columns)))
    with target_db.cursor().copy(statement) as copy:
        for row in rows:
            copy.write_row([sanitize_text(value) if isinstance(value, str) else value for value in row])
            done += 1
            if done % _PROGRESS_STEP_ROWS == 0:
                yield done
    yield done


def _add_lease_column(columns: list[str], rows: Iterable[Row]) -> tuple[list[str], Iterator[Row]]:
    """Give every node an ended lease: a file has none, and none of its nodes is alive.

    A node that stopped did so before its lease was over, and a node that died held it to the end.
    """

    def end_lease(row: Row) -> Row:
        node = dict(zip(columns, row, strict=True))
        stopped_at = node["stopped_at"] or node["seen_at"]
        lease_until = stopped_at + 1 if node["stopped_at"] else stopped_at
        return tuple({**node, "stopped_at": stopped_at, "lease_until": lease_until}.values())

    return [*columns, "lease_until"], map(end_lease, rows)


def _advance_sequence(source_db: sqlite3.Connection, target_db: psycopg.Connection[Any], table: str) -> None:
    """Give the next row an id that none has had, rows that were deleted included."""
    if table in _TABLES_WITHOUT_ID:
        return
    floor = source_db.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?", [f"{table}_id_floor"]).fetchone()
    row = target_db.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table]).fetchone()
    if row is not None:
        newest = "SELECT setval(%s, greatest((SELECT coalesce(max(id), 0) FROM {}), %s) + 1, false)"
        target_db.execute(SQL(newest).format(Identifier(table)), [row[0], floor[0] if floor else 0])


def _verify_counts(target_db: psycopg.Connection[Any], counts: dict[str, int]) -> None:
    for table, expected in counts.items():
        row = target_db.execute(SQL("SELECT count(*) FROM {}").format(Identifier(table))).fetchone()
        if row is None or row[0] != expected:
            found = row[0] if row else 0
            hint = "Nothing was changed. Check the file: herdbeat db check"
            raise StoreUnavailable(f"{found} of {expected} rows of table {table} were copied.", hint=hint)
