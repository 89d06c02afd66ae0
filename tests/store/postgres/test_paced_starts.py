"""Agents that are due at once start at the rate of the fleet, whichever node claims them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
from tests.support.postgres_nodes import build_fleet, open_nodes, set_clock

from herdbeat.domain.policies import AUTOMATIC_SPREAD
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.location import PostgresLocation
from herdbeat.timestamps import from_micros

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
STEP = timedelta(seconds=1) / 10  # of the pacer that these nodes have


def places(place: PostgresLocation) -> list[datetime]:
    """When each that waits for its place may start."""
    with psycopg.connect(place.url) as connection:
        rows = connection.execute("SELECT next_run_at FROM schedule WHERE next_run_at > next_due_at").fetchall()
    return sorted(from_micros(micros) for (micros,) in rows)


def test_three_nodes_that_start_one_fleet_give_each_agent_a_place_of_its_own(database: PostgresLocation) -> None:
    set_clock(database, NOW)
    names = [f"agent-{number:03}" for number in range(120)]
    with open_nodes(database, 3) as some:
        some[0].store.write_now(lambda tx: apply_fleet(tx, build_fleet(*names, jitter=AUTOMATIC_SPREAD), NOW))
        for node in some:
            node.join(NOW)

        with ThreadPoolExecutor(3) as pool:
            claims = sum((len(result.claims) for result in pool.map(lambda node: node.claim(NOW), some)), 0)
        for node in some:  # what another had locked
            claims += len(node.claim(NOW).claims)

        waiting = places(database)

    assert claims == 1
    assert waiting == [NOW + place * STEP for place in range(1, len(names))]
