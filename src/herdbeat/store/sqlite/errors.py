"""SQLite's errors as StoreUnavailable with a hint, for the writer and for readers."""

import sqlite3
from pathlib import Path

from herdbeat.errors import StoreLocked, StoreUnavailable

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
        return empty_ledger_error(path)
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


def empty_ledger_error(path: Path) -> StoreUnavailable:
    message = (
        f"{path} is empty: it was truncated, possibly because the disk was full. herdbeat does not replace a ledger."
    )
    return StoreUnavailable(
        message, hint="Restore a backup (herdbeat db restore FILE), or delete the file to start with an empty ledger."
    )
