"""The writing connection of the SQLite store: a named statement for a whole batch, its answer as one JSON array.

Hot batches are bound as values: `(VALUES :rows)` becomes as many rows of `?` as there are. SQLite keeps such a
statement prepared, and binding is several times cheaper than extracting every field from a JSON text: 1.6 instead of
6.9 µs for a beat. There are few sizes, so that few statements are ever prepared. A part that is more than half of a
size is padded with rows of NULL, so that few statements run: after each one the writer needs Python's lock again. A row
whose id is NULL must therefore change nothing.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from herdbeat.errors import StoreLocked, StoreUnavailable
from herdbeat.store.sanitize import dump_json, dump_sanitized
from herdbeat.store.statements import Row, RowCount, load_statements, zero_rows

ROWS_PLACEHOLDER = "(VALUES :rows)"

BATCH_SIZES = (256, 64, 16, 4, 1)
"""Rows of one statement. Eight columns of so many are far below the 32,766 values that SQLite can bind."""


def split_batches(sql: str, rows: Sequence[Row], values: dict[str, object]) -> Iterator[tuple[str, list[object]]]:
    """Yield the statements for all rows, each with its bound values. `values` are the same for every row."""
    width, names, extra = len(rows[0]), tuple(values), list(values.values())
    start = 0
    while start < len(rows):
        remaining = len(rows) - start
        size = next(size for size in BATCH_SIZES if remaining > size // 2)
        part = rows[start : start + size]
        padding = [None] * (width * (size - len(part)))
        yield expand_rows(sql, width, size, names), [*chain.from_iterable(part), *padding, *extra]
        start += size


@lru_cache(maxsize=1_024)
def expand_rows(sql: str, width: int, size: int, names: tuple[str, ...]) -> str:
    """Values come after the rows in every text, so rows need no numbers: 512 numbered rows took 22 ms to parse."""
    row = f"({', '.join('?' * width)})"
    text = sql.replace(ROWS_PLACEHOLDER, f"(VALUES {', '.join([row] * size)})")
    for number, name in enumerate(names, start=width * size + 1):
        text = re.sub(rf":{name}\b", f"?{number}", text)
    return text


KNOWN_WRITES = frozenset(
    {
        *(
            "mark_intervals_started",
            "reschedule_simple",
            "change_schedules",
            "count_schedules",
            "add_runs",
            "finish_succeeded_runs",
            "finish_runs",
        ),
        *(
            "start_beats",
            "add_beats",
            "settle_beats",
            "change_beats",
            "extend_beats",
            "wake_pending_beats",
            "adjust_running",
        ),
        *("set_catchup_cursor", "set_start_slot_cursor", "renew_node", "add_rule_states", "drop_rule_states"),
    }
)
"""Writes after which the claimed rows are still known (`ClaimedRows`): the transaction follows those of the first line,
the others change nothing that it keeps. After any other write it reads all rows again."""

_WRITE_PATTERN = re.compile(r"^(?!\s*--).*\b(INSERT|UPDATE|DELETE|REPLACE)\b", re.MULTILINE)


@cache
def find_foreign_writes() -> frozenset[str]:
    """Return the names of statements that may change a claimed row unnoticed. Once: it reads all of them in 2 ms."""
    return frozenset(
        name
        for name, text in load_statements("sqlite").items()
        if name not in KNOWN_WRITES and _WRITE_PATTERN.search(text)
    )


class SqliteConnection:
    """Runs the statements of the writer. See `Connection`."""

    def __init__(self, connection: sqlite3.Connection, on_foreign_write: Callable[[], None] | None = None) -> None:
        """`on_foreign_write` is called before each statement that may change a row which was claimed before."""
        self._connection = connection
        self._sql: Mapping[str, str] = load_statements("sqlite")
        self._foreign_writes = find_foreign_writes() if on_foreign_write is not None else frozenset()
        self._on_foreign_write = on_foreign_write

    def query(self, name: str, rows: Iterable[object] = (), **values: object) -> Any:
        self._follow(name)
        (answer,) = self._connection.execute(self._sql[name], {"rows": dump_json(list(rows)), **values}).fetchone()
        return json.loads(answer)

    def query_one(self, name: str, **values: object) -> Any:
        """Return the only row, which is not JSON."""
        self._follow(name)
        return self._connection.execute(self._sql[name], values).fetchone()

    def execute_many(self, name: str, rows: Sequence[object], **values: object) -> RowCount:
        return self.execute(name, rows=dump_sanitized(rows), **values) if rows else zero_rows

    def execute_values(self, name: str, rows: Sequence[Row], **values: object) -> RowCount:
        if not rows:
            return zero_rows
        self._follow(name)
        before = self._connection.total_changes  # the driver has no rowcount for what begins with WITH
        for sql, bound in split_batches(self._sql[name], rows, values):
            self._connection.execute(sql, bound)
        return partial(int, self._connection.total_changes - before)

    def execute(self, name: str, **values: object) -> RowCount:
        self._follow(name)
        return partial(int, self._connection.execute(self._sql[name], values).rowcount)

    def _follow(self, name: str) -> None:
        if self._on_foreign_write is not None and name in self._foreign_writes:
            self._on_foreign_write()


# ── errors of SQLite, for the writer and for readers ──

_OLD_SCHEMA_ERRORS = ("no such table", "no such column")
"""Errors of a ledger that this version has not opened yet. It is intact, and only a node may migrate it."""

_HINTS = {
    ("not a database", "malformed"): (
        "Keep the file and restore a backup: herdbeat db restore FILE. herdbeat does not replace a damaged ledger."
    ),
    ("locked",): "Another program is writing to the file. Close it, or try again later.",
    ("full",): "Free disk space.",
    ("readonly", "unable to open"): "Check that this user can read and write the file and its folder.",
    ("I/O error",): "Check the disk, and that the path is a regular file.",
}


def to_store_unavailable(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StoreUnavailable:
    """Accepts UnicodeDecodeError: SQLite quotes a damaged schema, and the driver cannot always decode it."""
    message = str(error)
    if is_empty_file(path):
        return build_empty_ledger_error(path)
    if message.startswith(_OLD_SCHEMA_ERRORS):
        text = f"{path} was created by an older version of herdbeat ({message})."
        return StoreUnavailable(text, hint="Start the fleet to upgrade it: herdbeat up")
    hints = (hint for words, hint in _HINTS.items() if any(word in message for word in words))
    kind = StoreLocked if "locked" in message else StoreUnavailable
    return kind(f"{path}: {message}", hint=next(hints, "Show details: herdbeat db check"))


def is_empty_file(path: Path) -> bool:
    """Whether the ledger exists without any content. A new one gets its name when its tables are complete."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def build_empty_ledger_error(path: Path) -> StoreUnavailable:
    message = (
        f"{path} is empty: it was truncated, possibly because the disk was full. herdbeat does not replace a ledger."
    )
    return StoreUnavailable(
        message, hint="Restore a backup (herdbeat db restore FILE), or delete the file to start with an empty ledger."
    )
