"""A server that faults may stop, start and spoil as they like: one for each file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres as servers

from herdbeat.store.places import PostgresPlace


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.own_server() as server:
        yield server


@pytest.fixture
def place(server: servers.Server, tmp_path: Path) -> Iterator[PostgresPlace]:
    with servers.new_database(server) as url:
        yield PostgresPlace(url=url, state_dir=tmp_path)
