"""`catchup_rate` is the fleet's: nodes that come back together do not each start so many."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
from tests.support.postgres_nodes import build_fleet, open_nodes, set_clock

from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.location import PostgresLocation
from herdbeat.timestamps import from_micros

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
BACK = NOW + timedelta(hours=2)
STEP = timedelta(seconds=1) / 10  # of the pacer that these nodes have


def starts(place: PostgresLocation) -> list[datetime]:
    """When each that is caught up may start. These nodes end nothing, so all of them are there."""
    with psycopg.connect(place.url) as connection:
        rows = connection.execute("SELECT wake_at FROM beat WHERE reason = 'catch-up'").fetchall()
    return [from_micros(micros) for (micros,) in rows]


def test_three_nodes_that_return_together_share_one_catchup_rate(database: PostgresLocation) -> None:
    set_clock(database, NOW)
    names = [f"t{number:03}" for number in range(240)]
    with open_nodes(database, 3) as some:
        some[0].join(NOW - timedelta(hours=1))
        some[0].store.write_now(lambda tx: apply_fleet(tx, build_fleet(*names), NOW))
        some[0].store.write_now(lambda tx: tx.leave_node(some[0].joined.node_id, NOW - timedelta(minutes=30)))
        set_clock(database, BACK)
        for node in some:
            node.join(BACK)

        with ThreadPoolExecutor(3) as pool:
            for _ in range(3):
                list(pool.map(lambda node: node.claim(BACK), some))

        places = sorted(starts(database))

    assert places == [BACK + place * STEP for place in range(1, len(names))]  # the first has started meanwhile
