"""A server that fault tests may stop, start and degrade: one for each file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import postgres_server as servers

from herdbeat.store.location import PostgresLocation


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with servers.private_server() as server:
        yield server


@pytest.fixture
def place(server: servers.PostgresServer, tmp_path: Path) -> Iterator[PostgresLocation]:
    with servers.new_database(server) as url:
        yield PostgresLocation(url=url, state_dir=tmp_path)
