"""PostgreSQL that goes away, or whose answers get lost: nothing is lost, nothing starts twice, all recovers alone."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres as servers
from tests.faults.cut_proxy import cutting
from tests.faults.shared_fleet import SharedFleet

from herdbeat.store.places import PostgresPlace


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.own_server() as server:
        yield server


@pytest.fixture
def place(server: servers.Server, tmp_path: Path) -> Iterator[PostgresPlace]:
    with servers.new_database(server) as url:
        yield PostgresPlace(url=url, state_dir=tmp_path)


@pytest.fixture
def fleet(tmp_path: Path, place: PostgresPlace) -> Iterator[SharedFleet]:
    fleet = SharedFleet.create(tmp_path, place)
    yield fleet
    fleet.end()


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_that_is_restarted_again_and_again_costs_time_and_no_beat(
    fleet: SharedFleet, server: servers.Server, how: str
) -> None:
    fleet.start(1)
    fleet.start(2)
    for _ in range(2):
        fleet.wait_for_starts(1)
        server.restart(how)

    fleet.wait_for_starts(3)

    fleet.stop(1)
    fleet.stop(2)
    fleet.consult_the_oracle()


def test_a_server_that_is_away_for_longer_than_a_lease_is_a_gap_of_all_nodes(
    fleet: SharedFleet, server: servers.Server
) -> None:
    fleet.start(1)
    fleet.start(2)
    fleet.wait_for_starts(2)
    server.stop("fast")
    time.sleep(3)  # what is tested is that time passes and nobody is there

    server.start()
    fleet.wait_for_starts(4)

    fleet.stop(1)
    fleet.stop(2)
    fleet.consult_the_oracle()
    assert fleet.ask("SELECT DISTINCT reason FROM gap") == [("scheduler_down",)]


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_connection_cut_around_a_commit_neither_loses_nor_doubles_a_beat(fleet: SharedFleet, how: str) -> None:
    with cutting(fleet.place.url) as (proxy, url):
        fleet.start(1, url=url)
        fleet.start(2)
        proxy.how, proxy.rate = how, 0.3

        fleet.wait_for_starts(8)

        proxy.rate = 0.0
        fleet.wait_for_starts(2)
        fleet.stop(1)
        fleet.stop(2)
        assert proxy.cuts > 0
    fleet.consult_the_oracle()
