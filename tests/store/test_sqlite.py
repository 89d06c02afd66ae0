from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.contract import StoreContract

from herdbeat.store.sqlite import SqliteStore


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
        store.open()
        yield store
        store.close()
