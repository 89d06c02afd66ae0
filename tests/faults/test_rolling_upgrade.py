"""The previous version and this one share a database under load: the beats do not show when the upgrade was."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.fault_fleet import LONG
from tests.support.postgres_fleet import EXPIRED_NODES_QUERY, PostgresFleet, make_herd_yaml
from tests.support.previous_version import VERSION, PreviousVersion

from herdbeat import __version__
from herdbeat.store.location import PostgresLocation

OLD, NEW = (1, 2), (3, 4)
HERD = 100
MEANWHILE = 60
"""Starts between two steps of an upgrade: about a second of this herd."""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> PreviousVersion:
    return PreviousVersion.unpack(tmp_path_factory.mktemp("upgrade") / "previous")


@pytest.fixture
def fleet(tmp_path: Path, database: PostgresLocation) -> Iterator[PostgresFleet]:
    fleet = PostgresFleet(tmp_path, database, make_herd_yaml(HERD))
    yield fleet
    fleet.end()


def test_nodes_are_replaced_by_newer_ones_one_after_the_other(fleet: PostgresFleet, previous: PreviousVersion) -> None:
    _empty(fleet)
    previous.apply(fleet.prepare(0))
    fleet.start_all(*OLD, code=previous.code)
    fleet.wait_for_all_starts(2 * HERD)

    for old, new in zip(OLD, NEW, strict=True):
        fleet.start(new)
        fleet.wait_for_starts(MEANWHILE)
        fleet.stop(old)
        fleet.wait_for_starts(MEANWHILE)
    fleet.stop_all()

    fleet.check_against_oracle()
    assert _shares(fleet).keys() == {VERSION, __version__}, f"who ran anything, after {previous.revision}"
    assert fleet.ask("SELECT error FROM run WHERE status <> 'succeeded'") == []
    _nobody_noticed(fleet)


def test_an_older_node_continues_on_the_ledger_of_a_newer_one(fleet: PostgresFleet, previous: PreviousVersion) -> None:
    """A downgrade: the old node works, or reports that it cannot; the other nodes are not affected."""
    _empty(fleet)
    fleet.arrange()
    fleet.start_all(*NEW)
    fleet.wait_for_all_starts(2 * HERD)

    fleet.start(1, code=previous.code)
    fleet.wait_for_starts(MEANWHILE)
    fleet.stop(NEW[0])
    fleet.wait_for_starts(MEANWHILE)
    is_back = fleet.is_alive(1)
    fleet.stop_all()

    fleet.check_against_oracle()
    assert is_back == (VERSION in _shares(fleet))
    assert is_back or "created by a newer version of herdbeat" in fleet.log(1)
    _nobody_noticed(fleet)


def _nobody_noticed(fleet: PostgresFleet) -> None:
    """Check that beats were handed over: none had to wait for the expiry of a lease."""
    assert fleet.ask("SELECT * FROM gap") == []
    assert fleet.ask(EXPIRED_NODES_QUERY) == []
    assert fleet.longest_wait() < LONG


def _empty(fleet: PostgresFleet) -> None:
    with psycopg.connect(fleet.place.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def _shares(fleet: PostgresFleet) -> dict[str, int]:
    return dict(fleet.ask("SELECT version, count(*) FROM run JOIN node ON node.id = node_id GROUP BY 1"))
