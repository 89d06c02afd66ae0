from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.contract import StoreContract

from herdbeat.store.base import TargetRow
from herdbeat.store.sqlite import CHANGES, SqliteStore


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
        store.open()
        yield store
        store.close()


def test_the_log_is_moved_into_the_main_file_in_a_quiet_moment(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
    store.open()
    before = store.path.stat().st_size

    store.write_now(lambda tx: tx.add_targets([TargetRow(f"t{n}", "command", "{}", "", 1) for n in range(CHANGES)]))
    store.write_now(lambda tx: tx.targets())  # the writer has tidied up before it takes another order

    assert store.path.stat().st_size > before
    store.close()


def test_a_ledger_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state" / "ledger.db")
    store.open()
    store.write_now(lambda tx: tx.plans(["{}"]))

    files = [store.path.parent, *store.path.parent.iterdir()]
    assert [file.name for file in files if file.stat().st_mode & 0o077] == []
    store.close()
