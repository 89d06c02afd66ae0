"""Questions to a file that is not as it should be."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from herdbeat.errors import StoreUnavailable
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite.store import SqliteStore


def test_a_ledger_of_an_older_version_is_not_called_damaged(tmp_path: Path) -> None:
    """Who had put in a new version and asked before starting it was told to restore a backup."""
    path = tmp_path / "herdbeat.db"
    store = SqliteStore(path)
    store.open()
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE hint")

    with closing(SqliteReader(path)) as reader, pytest.raises(StoreUnavailable) as caught:
        reader.hints(None)

    assert "was created by an older version of herdbeat" in caught.value.message
    assert caught.value.hint == "Start the fleet to upgrade it: herdbeat up"


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda path: path.mkdir(), "regular file"),
        (lambda path: path.write_bytes(b"not a ledger " * 500), "herdbeat db restore FILE"),
        (lambda path: None, "that this user can read"),
    ],
)
def test_reading_an_unreadable_file_raises_with_a_hint(
    tmp_path: Path, make: Callable[[Path], object], hint: str
) -> None:
    path = tmp_path / "herdbeat.db"
    make(path)

    with pytest.raises(StoreUnavailable) as caught, closing(SqliteReader(path)) as reader:
        reader.hints(None)

    assert hint in caught.value.hint
