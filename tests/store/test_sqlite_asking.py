"""Questions to a ledger in a file: what is wrong with the file is told as such."""

from pathlib import Path

import pytest

from herdbeat.errors import StoreUnavailable
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.sqlite import SqliteStore


def test_a_file_that_is_no_ledger_is_told_by_the_first_question(tmp_path: Path) -> None:
    path = tmp_path / "herdbeat.db"
    path.write_bytes(b"this is no database, and was not one before" * 100)
    reader = SqliteReader(path)

    with pytest.raises(StoreUnavailable, match="not a database") as raised:
        reader.beats(Filter(limit=1))
    reader.close()

    assert str(path) in raised.value.message
    assert "herdbeat db check" in (raised.value.hint or "")


def test_damage_inside_is_told_when_it_is_come_across(tmp_path: Path) -> None:
    """The first pages are sound: only the rows further back cannot be read."""
    path = tmp_path / "herdbeat.db"
    store = SqliteStore(path)
    store.open()
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    reader = SqliteReader(path)

    with pytest.raises(StoreUnavailable, match="malformed"):
        list(reader.schedules(Filter(limit=10)))
    reader.close()
