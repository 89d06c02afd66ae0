"""The vital signs of a ledger file: its schema, its journal, its size, and whether SQLite still trusts it."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from herdbeat.errors import shown
from herdbeat.store.queries import migrations
from herdbeat.store.sqlite_faults import unavailable

_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """`newest` is the schema that this program writes. `damage` is the first thing that is wrong, or empty."""

    schema: int
    newest: int
    journal: str
    size: int
    damage: str


def read_vitals(path: Path) -> Vitals:
    """Reads only, and quickly: the indexes are not compared with their tables. Raises StoreUnavailable."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    damage = "" if said == "ok" else shown(str(said).removeprefix("*** in database main ***"), _LONGEST)
    return Vitals(schema=schema, newest=migrations()[-1][0], journal=journal, size=path.stat().st_size, damage=damage)
