"""How properties are searched (the same way every time where a red run stops others, anew each time on a desk), and
the PostgreSQL of a run: started by the first test that asks for it, ended with the run."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.support import postgres_server as servers

from herdbeat.store.location import PostgresLocation

settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Before the workers are started: they are told where the one server of this run is."""
    if not hasattr(config, "workerinput"):
        os.environ[servers.SERVER_HOME_ENV] = f"{tempfile.gettempdir()}/herdbeat-pg-{os.getpid()}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        servers.stop_shared_server()


@pytest.fixture(scope="session")
def postgres() -> servers.PostgresServer:
    return servers.shared_server()


@pytest.fixture
def database(postgres: servers.PostgresServer, tmp_path: Path) -> Iterator[PostgresLocation]:
    """A database with an empty ledger."""
    with servers.new_database(postgres) as url:
        yield PostgresLocation(url=url, state_dir=tmp_path)
