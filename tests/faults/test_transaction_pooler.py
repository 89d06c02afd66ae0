"""A transaction pooler in between: all guarantees hold, and changes take effect at the next poll at the latest."""

from datetime import timedelta
from pathlib import Path

from tests.support.postgres_fleet import EXPIRED_NODES_QUERY, PostgresFleet, make_herd_yaml
from tests.support.transaction_pooler import open_pooler

from herdbeat.clock import SystemClock
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.store.base import Transaction
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.reader import Filter

BY_HAND = "FROM beat JOIN run ON beat_id = beat.id WHERE beat.source = 'manual'"
TICKER = "SELECT schedule.id FROM schedule JOIN target ON target.id = target_id WHERE target.name = 'ticker'"
A_POLL = timedelta(seconds=1)
A_BUSY_MACHINE = timedelta(seconds=2)


def test_three_nodes_share_two_connections_and_lose_nothing(tmp_path: Path, database: PostgresLocation) -> None:
    fleet = PostgresFleet.create(tmp_path, database, make_herd_yaml(100))
    with open_pooler(database.url, size=2) as (pooler, url):
        try:
            fleet.start_all(1, 2, 3, url=url)
            fleet.wait_for_all_starts(200)
            fleet.kill(2)
            fleet.wait_for_row(EXPIRED_NODES_QUERY)
            store = PostgresStore(PostgresLocation(url=url, state_dir=tmp_path))
            store.open()
            store.write_now(lambda tx: _run_by_hand(tx, fleet))
            store.close()
            fleet.wait_for_row(f"SELECT 1 {BY_HAND}")
            fleet.stop_all()
        finally:
            fleet.end()

    fleet.check_against_oracle()
    assert pooler.hand_overs > 100
    ((late,),) = fleet.ask(f"SELECT claimed_at - created_at {BY_HAND}")
    assert timedelta(microseconds=late) < A_POLL + A_BUSY_MACHINE
    logs = "".join(fleet.log(number) for number in (1, 2, 3))
    assert "prepared statement" not in logs
    assert "read-only" not in logs


def _run_by_hand(tx: Transaction, fleet: PostgresFleet) -> None:
    ((ticker,),) = fleet.ask(TICKER)
    enqueue_manual(tx, SystemClock().now(), ticker, origin="human:you", event_id="7", queue=True)


def test_a_reader_leaves_a_connection_as_it_was(tmp_path: Path, database: PostgresLocation) -> None:
    """A connection used to stay read-only, and the pooler gave it to a node."""
    with open_pooler(database.url, size=1) as (_, url):
        place = PostgresLocation(url=url, state_dir=tmp_path)
        store = PostgresStore(place)
        store.open()
        reader = open_reader(place)

        for number in range(8):
            assert reader.runs(Filter()) == []
            store.write_now(lambda tx, number=number: tx.fleet_claim_name(f"{number}"))  # type: ignore[misc]

        assert store.write_now(lambda tx: tx.fleet_name()) == "0"
        reader.close()
        store.close()


def test_two_clients_never_get_each_others_statements(tmp_path: Path, database: PostgresLocation) -> None:
    """Both use the same names for prepared statements: one client got what the other had prepared on its connection."""
    with open_pooler(database.url, size=1) as (_, url):
        stores = [PostgresStore(PostgresLocation(url=url, state_dir=tmp_path)) for _ in range(2)]
        for store in stores:
            store.open()

        for _ in range(8):
            assert stores[0].write_now(lambda tx: tx.targets()) == {}
            assert stores[1].write_now(lambda tx: tx.fleet_name()) is None

        prepared = "SELECT count(*) FROM pg_prepared_statements"
        ((count,),) = stores[0].write_now(lambda tx: tx._connection._connection.execute(prepared).fetchall())  # type: ignore[attr-defined]
        assert count == 0
        for store in stores:
            store.close()
