"""The version before this one and this one share a database, under load: the beats do not show when it was."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.faults.previous import VERSION, Previous
from tests.faults.shared_fleet import LEASE, SharedFleet, herd_of

from herdbeat import __version__
from herdbeat.store.places import PostgresPlace

OLD, NEW = (1, 2), (3, 4)


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Previous:
    return Previous.unpack(tmp_path_factory.mktemp("upgrade") / "previous")


@pytest.fixture
def fleet(tmp_path: Path, database: PostgresPlace) -> Iterator[SharedFleet]:
    fleet = SharedFleet(tmp_path, database, herd_of(200))
    yield fleet
    fleet.end()


def test_nodes_are_replaced_by_newer_ones_one_after_the_other(fleet: SharedFleet, previous: Previous) -> None:
    _empty(fleet)
    previous.apply(fleet.prepare(0))
    fleet.start_all(*OLD, code=previous.code)
    fleet.wait_for_starts(250)

    for old, new in zip(OLD, NEW, strict=True):
        fleet.start(new)
        fleet.wait_for_starts(100)
        fleet.stop(old)
        fleet.wait_for_starts(100)
    fleet.stop_all()

    fleet.consult_the_oracle()
    assert _shares(fleet).keys() == {VERSION, __version__}, f"who ran anything, after {previous.revision}"
    assert fleet.ask("SELECT * FROM gap") == []
    assert fleet.ask("SELECT error FROM run WHERE status <> 'succeeded'") == []
    assert fleet.longest_wait() < LEASE


def test_an_older_node_comes_back_to_what_a_newer_one_has_written(fleet: SharedFleet, previous: Previous) -> None:
    """A step back: it works on, or says that it cannot; whoever is there does not notice."""
    _empty(fleet)
    fleet.arrange()
    fleet.start_all(*NEW)
    fleet.wait_for_starts(250)

    fleet.start(1, code=previous.code)
    fleet.wait_for_starts(100)
    fleet.stop(NEW[0])
    fleet.wait_for_starts(100)
    is_back = fleet.is_alive(1)
    fleet.stop_all()

    fleet.consult_the_oracle()
    assert is_back == (VERSION in _shares(fleet))
    assert is_back or "written by a newer herdbeat" in fleet.log(1)
    assert fleet.ask("SELECT * FROM gap") == []
    assert fleet.longest_wait() < LEASE


def _empty(fleet: SharedFleet) -> None:
    with psycopg.connect(fleet.place.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def _shares(fleet: SharedFleet) -> dict[str, int]:
    return dict(fleet.ask("SELECT version, count(*) FROM run JOIN node ON node.id = node_id GROUP BY 1"))
