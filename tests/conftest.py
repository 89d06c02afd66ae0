"""Hypothesis profiles (reproducible where a failure blocks others, random on a desk), the check of rows that the store
remembers, and the PostgreSQL server of a test run, which the first test that needs it starts.
"""

import itertools
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.support import postgres_server as servers
from tests.support.claimed_rows import check_claimed_rows, take_differences

from herdbeat import redaction
from herdbeat.platform import default_signals
from herdbeat.store.location import PostgresLocation

settings.register_profile("desk", deadline=None)  # a busy machine is slow, not wrong: speed is measured in bench/
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "desk")


def pytest_configure(config: pytest.Config) -> None:
    """Pass the address of the one server of this run to the workers, before they start."""
    _restore_signals()
    check_claimed_rows()
    os.environ["HERDBEAT_NO_SERVER"] = "1"  # tests of the server start their own; hundreds of others need none
    if hasattr(config, "workerinput"):
        # A shell that ends leaves an orphaned group; with a process in it that a test has stopped, the kernel hangs
        # up on all of it. Under nohup the tests go on, so their workers do, too.
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    else:
        os.environ[servers.SERVER_HOME_ENV] = f"{tempfile.gettempdir()}/herdbeat-pg-{os.getpid()}"


def _restore_signals() -> None:
    """Processes that tests start must not inherit ignored or blocked signals.

    A background job without a terminal begins with SIGINT ignored, and `logs -f` in a test then never ended by it.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with default_signals():
        pass


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Distribute the modules of fault tests, which mostly wait, among the others, which mostly calculate.

    Workers begin with equal parts of the list. In the order of the folders, one part was nearly all fault tests, and
    took longer than the rest together.
    """
    modules = [list(each) for _, each in itertools.groupby(items, key=lambda item: item.path)]
    faults = [module for module in modules if "faults" in module[0].path.parts]
    others = [module for module in modules if "faults" not in module[0].path.parts]
    for index, module in reversed(list(enumerate(faults))):
        others.insert(index * len(others) // len(faults), module)
    items[:] = itertools.chain.from_iterable(others)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        servers.stop_shared_server()


@pytest.fixture(autouse=True)
def _forget_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets of one test must not be hidden in the output of the next."""
    monkeypatch.setattr(redaction, "_registered", set())
    monkeypatch.setattr(redaction, "_known_values", None)


@pytest.fixture(autouse=True)
def _check_claimed_rows() -> Iterator[None]:
    """Whatever a test does, rows that the store remembers of its claims are those of the ledger."""
    yield
    assert take_differences() == []


@pytest.fixture(scope="session")
def postgres() -> servers.PostgresServer:
    return servers.shared_server()


@pytest.fixture
def database(postgres: servers.PostgresServer, tmp_path: Path) -> Iterator[PostgresLocation]:
    """Return the URL of a database with an empty ledger."""
    with servers.new_database(postgres) as url:
        yield PostgresLocation(url=url, state_dir=tmp_path)
