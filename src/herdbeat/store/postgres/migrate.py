"""Migrate a database to this program's schema: forward only, by one node at a time, all or nothing.

Nodes of the version before keep running meanwhile: a migration only adds, and its head names the oldest schema whose
programs can run beside it (decision 0011). A migration without that line requires all other nodes to be stopped.
"""

import re
from typing import Any

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.statements import load_migrations

MIGRATIONS_FOLDER = "postgres_migrations"
_MIGRATION_LOCK_ID = 7_243_215
"""An arbitrary number that all nodes use."""

_MIN_SCHEMA_PATTERN = re.compile(r"^-- Understood by programs of schema (\d+)", re.MULTILINE)
_META_EXISTS_SQL = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta')"


def migrate(connection: psycopg.Connection[Any]) -> None:
    """Migrate in one transaction, under a lock: nodes that start together wait for the first of them."""
    if _current_schema(connection) == newest_schema():
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATION_LOCK_ID])
        current = _current_schema(connection)
        require_known_schema(connection)
        missing = [(number, text) for number, text in load_migrations(MIGRATIONS_FOLDER) if number > current]
        _require_no_older_nodes(connection, current, missing)
        for number, text in missing:
            connection.execute(text.encode())
            _set_meta(connection, "schema", number)
            understood_by = max(min_compatible_schema(number, text), _get_meta(connection, "understood_by", 0))
            _set_meta(connection, "understood_by", understood_by)


def min_compatible_schema(number: int, text: str) -> int:
    """Return the oldest schema whose programs can keep running after this migration."""
    declared = _MIN_SCHEMA_PATTERN.search(text)
    return int(declared[1]) if declared else number


def require_known_schema(connection: psycopg.Connection[Any]) -> None:
    """Raises StoreUnavailable before anything is read or written in tables that this version does not understand."""
    current, newest = _current_schema(connection), newest_schema()
    if current > newest and _get_meta(connection, "understood_by", current) > newest:
        message = (
            f"The database was created by a newer version of herdbeat (schema {current}; "
            f"this version supports {newest})."
        )
        raise StoreUnavailable(message, hint="Use that version, or another database.")


def require_readable_ledger(connection: psycopg.Connection[Any]) -> None:
    """Raises StoreUnavailable unless there is a ledger that this version understands."""
    require_known_schema(connection)
    if _current_schema(connection) == 0:
        raise StoreUnavailable("This database does not contain a ledger yet.", hint="Create it: herdbeat up --apply")


def is_migrated(connection: psycopg.Connection[Any]) -> bool:
    return _current_schema(connection) > 0


def _require_no_older_nodes(connection: psycopg.Connection[Any], current: int, missing: list[tuple[int, str]]) -> None:
    """Raises StoreUnavailable if running nodes would not understand the migrated tables."""
    if current == 0 or all(min_compatible_schema(number, text) <= current for number, text in missing):
        return
    live_nodes_sql = "SELECT count(*) FROM node WHERE stopped_at IS NULL AND lease_until > herdbeat_now()"
    row = connection.execute(live_nodes_sql.encode()).fetchone()
    if row is not None and row[0]:
        raise StoreUnavailable(
            f"{row[0]} nodes run an older version of herdbeat (schema {current}) "
            f"and cannot work with schema {newest_schema()}.",
            hint="Stop them first (list them with herdbeat nodes, run herdbeat down on each), then start this one.",
        )


def _set_meta(connection: psycopg.Connection[Any], key: str, number: int) -> None:
    upsert = "INSERT INTO meta (key, value) VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    connection.execute(upsert, [key, str(number)])


def newest_schema() -> int:
    return load_migrations(MIGRATIONS_FOLDER)[-1][0]


def _current_schema(connection: psycopg.Connection[Any]) -> int:
    # Looked up as a row. With to_regclass, a session that had waited for the lock still had it cached that there was no
    # such table, and nodes that started together on an empty database created everything twice.
    row = connection.execute(_META_EXISTS_SQL).fetchone()
    assert row is not None
    return _get_meta(connection, "schema", 0) if row[0] else 0


def _get_meta(connection: psycopg.Connection[Any], key: str, default: int) -> int:
    found = connection.execute("SELECT value FROM meta WHERE key = %s", [key]).fetchone()
    return int(found[0]) if found else default
