"""SQLite's errors as StoreUnavailable with a hint, for the writer and for readers."""

import sqlite3
from pathlib import Path

from herdbeat.errors import StoreUnavailable

_OLD_SCHEMA_ERRORS = ("no such table", "no such column")
"""Errors of a ledger that this version has not opened yet. It is intact, and only a node may migrate it."""

_HINTS = {
    ("not a database", "malformed"): (
        "Keep the file, and restore a backup (herdbeat db restore FILE): "
        "herdbeat never starts empty over a damaged ledger."
    ),
    ("locked",): "Another program holds the file. herdbeat tries again.",
    ("full",): "Make room on the disk. herdbeat tries again.",
    ("readonly", "unable to open"): "Let it be a file that this user may read and write, in such a folder.",
    ("I/O error",): "Look at the disk, and whether this is a file at all.",
}


def to_store_unavailable(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StoreUnavailable:
    """Accepts UnicodeDecodeError: SQLite quotes a damaged schema, and the driver cannot always decode it."""
    message = str(error)
    if is_empty_file(path):
        return empty_ledger_error(path)
    if message.startswith(_OLD_SCHEMA_ERRORS):
        text = f"{path} was written by an older version of herdbeat ({message})."
        return StoreUnavailable(text, hint="Start it once, which brings it up to date: herdbeat up")
    hints = (hint for words, hint in _HINTS.items() if any(word in message for word in words))
    return StoreUnavailable(f"{path}: {message}", hint=next(hints, "Look closer: herdbeat db check"))


def is_empty_file(path: Path) -> bool:
    """Whether the ledger exists without any content. A new one gets its name when its tables are complete."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def empty_ledger_error(path: Path) -> StoreUnavailable:
    message = f"{path} is empty: somebody or a full disk has truncated it. herdbeat never starts empty over a ledger."
    return StoreUnavailable(message, hint="Restore a backup (herdbeat db restore FILE), or remove it to start anew.")
