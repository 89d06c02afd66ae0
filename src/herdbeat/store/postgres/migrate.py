"""Bringing a database to this program's schema: forward only, by one node at a time, all or nothing.

Nodes of the version before go on meanwhile: a migration only adds, and says in its head which schema a program has to
know at least to go on beside it (decision 0011). One that says nothing wants all others to be stopped first.
"""

import re
from typing import Any

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.queries import migrations

FOLDER = "postgres_migrations"
_LOCK = 7_243_215
"""Any number would do, as long as all nodes use the same."""

_UNDERSTOOD = re.compile(r"^-- Understood by programs of schema (\d+)", re.MULTILINE)
_IS_THERE = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta')"


def migrate(connection: psycopg.Connection[Any]) -> None:
    """In one transaction, under a lock: nodes that start together wait for the first of them."""
    if _version(connection) == _newest():
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        have = _version(connection)
        refuse_newer(connection)
        missing = [(number, text) for number, text in migrations(FOLDER) if number > have]
        _refuse_to_strand(connection, have, missing)
        for number, text in missing:
            connection.execute(text.encode())
            _remember(connection, "schema", number)
            _remember(
                connection, "understood_by", max(understood_by(number, text), _number(connection, "understood_by", 0))
            )


def understood_by(number: int, text: str) -> int:
    """The oldest schema whose programs can go on after this migration."""
    told = _UNDERSTOOD.search(text)
    return int(told[1]) if told else number


def refuse_newer(connection: psycopg.Connection[Any]) -> None:
    """Before anything is read or written in tables that we may not understand."""
    have = _version(connection)
    if have > _newest() and _number(connection, "understood_by", have) > _newest():
        raise StoreUnavailable(
            f"The database was written by a newer herdbeat (schema {have}; this one knows {_newest()}).",
            hint="Use that version, or another database.",
        )


def refuse_foreign(connection: psycopg.Connection[Any]) -> None:
    """For who only reads: there must be a ledger, and one that we understand."""
    refuse_newer(connection)
    if _version(connection) == 0:
        raise StoreUnavailable("There is no ledger in this database yet.", hint="Start it once: herdbeat up --apply")


def is_migrated(connection: psycopg.Connection[Any]) -> bool:
    return _version(connection) > 0


def _refuse_to_strand(connection: psycopg.Connection[Any], have: int, missing: list[tuple[int, str]]) -> None:
    """Nodes at work that would not understand what we are about to make of their tables."""
    if have == 0 or all(understood_by(number, text) <= have for number, text in missing):
        return
    living = "SELECT count(*) FROM node WHERE stopped_at IS NULL AND lease_until > herdbeat_now()"
    row = connection.execute(living.encode()).fetchone()
    if row is not None and row[0]:
        raise StoreUnavailable(
            f"{row[0]} nodes of an older herdbeat are at work (schema {have}); they would not understand {_newest()}.",
            hint="Stop them first (herdbeat down on each; herdbeat nodes shows them), then start this one.",
        )


def _remember(connection: psycopg.Connection[Any], key: str, number: int) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [key, str(number)],
    )


def _newest() -> int:
    return migrations(FOLDER)[-1][0]


def _version(connection: psycopg.Connection[Any]) -> int:
    # Looked up as a row. By to_regclass, whoever had waited for the lock still remembered that there was no such table,
    # and nodes that started together on an empty database made everything twice.
    row = connection.execute(_IS_THERE).fetchone()
    assert row is not None
    return _number(connection, "schema", 0) if row[0] else 0


def _number(connection: psycopg.Connection[Any], key: str, otherwise: int) -> int:
    found = connection.execute("SELECT value FROM meta WHERE key = %s", [key]).fetchone()
    return int(found[0]) if found else otherwise
