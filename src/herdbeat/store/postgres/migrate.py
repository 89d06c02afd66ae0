"""Bringing a database to this program's schema: forward only, by one node at a time, all or nothing."""

from typing import Any

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.queries import migrations

FOLDER = "postgres_migrations"
_LOCK = 7_243_215
"""Any number would do, as long as all nodes use the same."""

_IS_THERE = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta')"


def migrate(connection: psycopg.Connection[Any]) -> None:
    """In one transaction, under a lock: nodes that start together wait for the first of them."""
    if _version(connection) == _newest():
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        have = _version(connection)
        refuse_newer(have)
        for number, text in migrations(FOLDER):
            if number > have:
                connection.execute(text.encode())
                connection.execute(
                    "INSERT INTO meta (key, value) VALUES ('schema', %s) ON CONFLICT (key) DO UPDATE SET value = %s",
                    [str(number), str(number)],
                )


def refuse_newer(have: int) -> None:
    """Before anything is read or written in tables that we may not understand."""
    if have > _newest():
        raise StoreUnavailable(
            f"The database was written by a newer herdbeat (schema {have}; this one knows {_newest()}).",
            hint="Use that version, or another database.",
        )


def refuse_foreign(connection: psycopg.Connection[Any]) -> None:
    """For who only reads: there must be a ledger, and one that we understand."""
    have = _version(connection)
    refuse_newer(have)
    if have == 0:
        raise StoreUnavailable("There is no ledger in this database yet.", hint="Start it once: herdbeat up --apply")


def is_migrated(connection: psycopg.Connection[Any]) -> bool:
    return _version(connection) > 0


def _newest() -> int:
    return migrations(FOLDER)[-1][0]


def _version(connection: psycopg.Connection[Any]) -> int:
    # Looked up as a row. By to_regclass, whoever had waited for the lock still remembered that there was no such table,
    # and nodes that started together on an empty database made everything twice.
    row = connection.execute(_IS_THERE).fetchone()
    assert row is not None
    if not row[0]:
        return 0
    found = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    return int(found[0]) if found else 0
