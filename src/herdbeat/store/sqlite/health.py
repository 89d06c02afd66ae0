"""The health of a ledger file: schema, journal, size, and whether SQLite finds damage."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from herdbeat.errors import truncate_for_message
from herdbeat.store.sql_files import load_migrations
from herdbeat.store.sqlite.errors import to_store_unavailable

_MAX_DAMAGE_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHealth:
    """`newest` is the schema that this program writes. `damage` is the first thing that is wrong, or empty."""

    schema: int
    newest: int
    journal: str
    size: int
    damage: str


def read_health(path: Path) -> LedgerHealth:
    """Return it quickly: indexes are not compared with their tables. Raises StoreUnavailable."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            (quick_check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise to_store_unavailable(path, error) from error
    damage = (
        ""
        if quick_check == "ok"
        else truncate_for_message(str(quick_check).removeprefix("*** in database main ***"), _MAX_DAMAGE_CHARS)
    )
    return LedgerHealth(
        schema=schema, newest=load_migrations()[-1][0], journal=journal, size=path.stat().st_size, damage=damage
    )
