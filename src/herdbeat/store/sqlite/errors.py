"""What SQLite complains about, and what to do about it: the same for who writes and for all who only look."""

import sqlite3
from pathlib import Path

from herdbeat.errors import StoreUnavailable

_OLD_SCHEMA_ERRORS = ("no such table", "no such column")
"""What a ledger says that was not opened by this version yet. It is whole, and only a node may change it."""

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
    """A damaged schema is quoted in SQLite's own message, whose bytes the driver cannot always read."""
    message = str(error)
    if message.startswith(_OLD_SCHEMA_ERRORS):
        text = f"{path} was written by an older version of herdbeat ({message})."
        return StoreUnavailable(text, hint="Start it once, which brings it up to date: herdbeat up")
    return StoreUnavailable(f"{path}: {message}", hint=_suggest_fix(message))


def _suggest_fix(message: str) -> str:
    known = (mend for words, mend in _HINTS.items() if any(word in message for word in words))
    return next(known, "Look closer: herdbeat db check")
