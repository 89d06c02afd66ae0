"""Copies of the ledger: of one moment, whole or not there, and refused if they are not what they seem."""

import sqlite3
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.domain.beat import Gap, MissedReason
from herdbeat.errors import Conflict, HerdbeatError, NotFound, StoreUnavailable
from herdbeat.store.base import Transaction
from herdbeat.store.sqlite.backup import backup_ledger, find_damage, require_restorable
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.statements import load_migrations

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "herdbeat.db", synchronous="OFF")
    store.open()
    yield store
    store.close()


def grow(store: SqliteStore, number: int) -> None:
    gap = Gap(from_at=NOW, until=NOW, reason=MissedReason.SLEPT)

    def add(tx: Transaction) -> None:
        for _ in range(number):
            tx.add_gap(gap)

    store.write_now(add)


def gaps_in(file: Path) -> int:
    connection = sqlite3.connect(file)
    (number,) = connection.execute("SELECT count(*) FROM gap").fetchone()
    connection.close()
    return int(number)


def test_a_backup_holds_what_was_durable_when_it_began_while_the_node_keeps_writing(
    store: SqliteStore, tmp_path: Path
) -> None:
    grow(store, 200_000)
    seen: list[tuple[int, int]] = []

    def progress(copied: int, total: int) -> None:
        if not seen:
            grow(store, 10)  # commits while the copy is under way
        seen.append((copied, total))

    backup_ledger(store.path, tmp_path / "copy.db", progress=progress)

    assert gaps_in(tmp_path / "copy.db") == 200_000
    assert len(seen) > 1
    assert seen[-1][0] == seen[-1][1]
    assert seen == sorted(seen)  # it never began again


def test_a_backup_is_one_sound_file_for_our_eyes_only(store: SqliteStore, tmp_path: Path) -> None:
    grow(store, 10)

    size = backup_ledger(store.path, tmp_path / "copy.db")

    assert size == (tmp_path / "copy.db").stat().st_size
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert find_damage(tmp_path / "copy.db") == []
    require_restorable(tmp_path / "copy.db")
    assert {path.name for path in tmp_path.iterdir()} - {"herdbeat.db", "herdbeat.db-wal", "herdbeat.db-shm"} == {
        "copy.db"
    }


def test_an_existing_file_is_replaced_only_on_request(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    with pytest.raises(Conflict, match="already exists"):
        backup_ledger(store.path, tmp_path / "mine")
    kept = (tmp_path / "mine").read_text()
    backup_ledger(store.path, tmp_path / "mine", replace=True)

    assert kept == "precious"
    require_restorable(tmp_path / "mine")


def test_a_backup_that_cannot_be_written_says_so_and_leaves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreUnavailable, match="could not be written"):
        backup_ledger(store.path, tmp_path / "file" / "copy.db")

    assert not list(tmp_path.glob("*.part"))


def test_a_damaged_ledger_gives_no_backup(tmp_path: Path) -> None:
    ledger = damaged(tmp_path)

    with pytest.raises(StoreUnavailable, match="damaged"):
        backup_ledger(ledger, tmp_path / "copy.db")

    assert not (tmp_path / "copy.db").exists()


def damaged(folder: Path) -> Path:
    """A ledger with a page of nonsense in its middle."""
    path = folder / "damaged.db"
    store = SqliteStore(path, synchronous="OFF")
    store.open()
    grow(store, 5_000)
    store.close()
    pages = bytearray(path.read_bytes())
    middle = len(pages) - 3 * 4096
    pages[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(pages)
    return path


def empty_database(folder: Path) -> Path:
    path = folder / "empty.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    return path


def newer(folder: Path) -> Path:
    store = SqliteStore(folder / "newer.db")
    store.open()
    store.close()
    connection = sqlite3.connect(folder / "newer.db")
    connection.execute(f"PRAGMA user_version = {load_migrations()[-1][0] + 1}")
    connection.close()
    return folder / "newer.db"


def garbage(folder: Path) -> Path:
    (folder / "garbage.db").write_bytes(b"not a database at all " * 1000)
    return folder / "garbage.db"


def cut_short(folder: Path) -> Path:
    path = damaged(folder)
    path.write_bytes(path.read_bytes()[:10_000])
    return path


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (damaged, "damaged"),
        (cut_short, "cut_short"),
        (empty_database, "not a herdbeat ledger"),
        (newer, "newer version of herdbeat"),
        (garbage, "cannot be restored"),
        (lambda folder: folder / "nowhere.db", "no file"),
        (lambda folder: folder, "no file"),
    ],
    ids=["damaged", "cut short", "another database", "newer", "garbage", "missing", "folder"],
)
def test_a_file_that_is_no_complete_ledger_is_refused(tmp_path: Path, make: object, said: str) -> None:
    file = make(tmp_path)  # type: ignore[operator]

    with pytest.raises(HerdbeatError) as caught:
        require_restorable(file)

    assert isinstance(caught.value, StoreUnavailable | NotFound)
    assert said in caught.value.message or said == "cut_short"
    assert caught.value.hint
