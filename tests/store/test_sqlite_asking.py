"""Questions to a file that is not as it should be."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from herdbeat.errors import StoreUnavailable
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite import SqliteStore


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

    assert "was written by an older version of herdbeat" in caught.value.message
    assert caught.value.hint == "Start it once, which brings it up to date: herdbeat up"
