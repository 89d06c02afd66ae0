"""PostgreSQL goes away, or its responses are lost: nothing is lost, nothing starts twice, everything recovers by
itself.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import postgres_server as servers
from tests.support.postgres_cut_proxy import open_cut_proxy
from tests.support.postgres_fleet import PostgresFleet, make_herd_yaml

from herdbeat.store.location import PostgresLocation

HERD = 40


@pytest.fixture
def fleet(tmp_path: Path, place: PostgresLocation) -> Iterator[PostgresFleet]:
    fleet = PostgresFleet.create(tmp_path, place, make_herd_yaml(HERD))
    yield fleet
    fleet.end()


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_repeatedly_restarted_server_delays_beats_and_loses_none(
    fleet: PostgresFleet, server: servers.PostgresServer, how: str
) -> None:
    fleet.start_all(1, 2)
    for _ in range(3):
        fleet.wait_for_starts(20)
        server.restart(how)

    fleet.wait_for_starts(HERD)

    fleet.stop_all()
    fleet.check_against_oracle()


def test_an_outage_longer_than_a_lease_is_a_gap_of_all_nodes(
    fleet: PostgresFleet, server: servers.PostgresServer
) -> None:
    fleet.start_all(1, 2)
    fleet.wait_for_all_starts(HERD)
    server.stop("fast")
    for number in (1, 2):
        fleet.wait_for_log_text(number, "join failed", more=2)  # its lease has expired, by the server's clock too

    server.start()
    fleet.wait_for_starts(HERD)

    fleet.stop_all()
    fleet.check_against_oracle()
    assert fleet.ask("SELECT DISTINCT reason FROM gap") == [("scheduler_down",)]


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_connection_cut_around_a_commit_neither_loses_nor_doubles_a_beat(fleet: PostgresFleet, how: str) -> None:
    with open_cut_proxy(fleet.place.url) as (proxy, url):
        fleet.start(1, url=url)
        fleet.start(2)
        proxy.how, proxy.rate = how, 0.3

        fleet.wait_for_log_text(1, "answer to a commit lost", more=5)

        proxy.rate = 0.0
        fleet.wait_for_starts(HERD)
        fleet.stop_all()
    fleet.check_against_oracle()
    done = fleet.log(1).count("commit had succeeded")
    assert done >= 5 if how == "after" else done == 0, f"{done} of {proxy.cuts} commits were done after all"
