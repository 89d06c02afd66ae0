"""A transaction is there as a whole or not at all, and whoever ordered it hears which."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from tests.support.postgres_cut_proxy import open_cut_proxy
from tests.support.postgres_nodes import open_nodes

from herdbeat.clock import SystemClock
from herdbeat.errors import ClaimLost, Conflict, StoreUnavailable
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.store.base import TargetRow, Transaction
from herdbeat.store.location import DEFAULT_LEASE, PostgresLocation
from herdbeat.store.postgres.session import MAX_RETRIES, PostgresSession
from herdbeat.store.postgres.store import PostgresStore

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


@pytest.fixture(params=["pipelined", "pooled"])
def store(database: PostgresLocation, request: pytest.FixtureRequest) -> Iterator[PostgresStore]:
    """Behind a pooler nothing is pipelined: what is wrong comes at another moment, and must end the same way."""
    found = PostgresStore(database)
    found.open()
    if request.param == "pooled":
        found.session._connector.disable_prepared()
    yield found
    found.close()


def put(tx: Transaction, name: str) -> None:
    tx.add_targets([TargetRow(name, "callable", "{}", "", 1)])


def names(store: PostgresStore) -> list[str]:
    return sorted(store.write_now(lambda tx: tx.targets()))


def unlucky(times: int, then: Callable[[], None]) -> Callable[[Transaction], None]:
    """Work that is sent away so often, as after a deadlock, each time with half of it written."""
    left = iter(range(times))

    def work(tx: Transaction) -> None:
        put(tx, "half")
        if next(left, None) is not None:
            raise StoreUnavailable("sent away") from psycopg.errors.DeadlockDetected()
        then()

    return work


def refuse() -> None:
    raise Conflict("not so")


def test_a_write_that_fails_until_its_last_attempt_is_committed(store: PostgresStore) -> None:
    store.write_now(unlucky(MAX_RETRIES, lambda: None))

    assert names(store) == ["half"]


def test_work_that_is_refused_at_its_last_attempt_writes_nothing(store: PostgresStore) -> None:
    with pytest.raises(Conflict):
        store.write_now(unlucky(MAX_RETRIES, refuse))

    assert names(store) == []


def test_work_that_fails_at_every_retry_raises_and_leaves_nothing(store: PostgresStore) -> None:
    with pytest.raises(StoreUnavailable, match="sent away"):
        store.write_now(unlucky(MAX_RETRIES + 1, lambda: None))

    assert names(store) == []


def test_work_that_swallows_an_error_is_not_reported_as_written(store: PostgresStore) -> None:
    def look_away(tx: Transaction) -> None:
        put(tx, "lost")
        with suppress(psycopg.Error):
            tx.target_adjust_running({1: 2**40})

    with pytest.raises((StoreUnavailable, psycopg.Error)):
        store.write_now(look_away)

    assert names(store) == []


def test_work_that_swallows_a_lost_connection_commits_nothing_on_the_next_one(
    store: PostgresStore, database: PostgresLocation
) -> None:
    def look_away(tx: Transaction) -> None:
        put(tx, "lost")
        with psycopg.connect(database.url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'herdbeat' AND datname = current_database()"
            )
        with suppress(StoreUnavailable):
            tx.targets()
            tx.targets()

    with pytest.raises(StoreUnavailable):
        store.write_now(look_away)

    assert names(store) == []


def test_an_error_of_ours_behind_a_write_that_fails_leaves_a_connection_that_works(store: PostgresStore) -> None:
    def fail_twice(tx: Transaction) -> None:
        tx.target_adjust_running({1: 2**40})
        put(tx, "behind")
        raise Conflict("not so")

    with pytest.raises((Conflict, psycopg.errors.NumericValueOutOfRange)):
        store.write_now(fail_twice)
    store.write_now(lambda tx: put(tx, "after"))

    assert names(store) == ["after"]


def test_a_node_that_has_left_succeeds_when_the_answer_to_its_commit_is_lost(database: PostgresLocation) -> None:
    with (
        open_cut_proxy(database.url) as (proxy, url),
        open_nodes(PostgresLocation(url=url, state_dir=Path()), 1) as (node,),
    ):
        now = SystemClock().now()
        number = node.join(now).node_id
        proxy.how, proxy.rate = "after", 1.0

        node.store.write_now(lambda tx: tx.leave_node(number, now))

        proxy.rate = 0.0
        assert node.store.write_now(lambda tx: tx.node_get_last_seen()) == now


def test_a_commit_after_a_lost_answer_succeeds(database: PostgresLocation) -> None:
    """The pipeline of the connection that was lost had never been left, and was in the way of the next commit."""
    session = PostgresSession(database.url, lease=DEFAULT_LEASE)
    session.open()
    written(session, lambda tx: register_node(tx, SystemClock().now(), NodeInfo(host="here", pid=1, version="test")))
    session.begin()
    session.attempt(lambda tx: put(tx, "first"))
    connection = session._connector.get()
    connection.execute("COMMIT")
    connection.execute("SELECT 1").fetchone()
    connection.close()  # the server has done it, and we could not even ask for it

    session.commit()
    written(session, lambda tx: put(tx, "second"))

    session.begin()
    assert sorted(session.attempt(lambda tx: tx.targets())) == ["first", "second"]
    session.rollback()
    session.close()


def written(session: PostgresSession, work: Callable[[Transaction], object]) -> None:
    session.begin()
    session.attempt(work)
    session.commit()


def test_a_transaction_that_was_undone_leaves_no_lock_behind(store: PostgresStore, database: PostgresLocation) -> None:
    store.write_now(lambda tx: put(tx, "one"))

    def take_and_refuse(tx: Transaction) -> None:
        tx.target_count_running([1])  # locked
        refuse()

    with pytest.raises(Conflict):
        store.write_now(take_and_refuse)

    with psycopg.connect(database.url) as other:
        other.execute("SELECT id FROM target FOR UPDATE NOWAIT")
        open_ones = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        ).fetchone()
    assert open_ones == (0,)


def test_a_prefetched_answer_is_not_used_in_the_next_transaction(store: PostgresStore) -> None:
    store.write_now(lambda tx: put(tx, "one"))

    def ask_and_refuse(tx: Transaction) -> None:
        tx._prefetch.send("target_capacity", [1])  # type: ignore[attr-defined]
        refuse()

    with pytest.raises(Conflict):
        store.write_now(ask_and_refuse)
    store.write_now(lambda tx: tx.target_adjust_running({1: 1}))

    assert store.write_now(lambda tx: tx.target_get_capacity([1]))[1].running == 1


def test_a_foreseen_answer_does_not_survive_a_write_of_the_same_transaction(store: PostgresStore) -> None:
    store.write_now(lambda tx: put(tx, "one"))

    def write_over(tx: Transaction) -> int:
        tx._prefetch.send("target_capacity", [1])  # type: ignore[attr-defined]
        tx.target_adjust_running({1: 1})
        return tx.target_get_capacity([1])[1].running

    assert store.write_now(write_over) == 1


def test_a_node_without_a_lease_writes_nothing_even_in_a_transaction_without_a_query(
    store: PostgresStore, database: PostgresLocation
) -> None:
    store.write_now(lambda tx: put(tx, "one"))
    number = store.write_now(lambda tx: register_node(tx, NOW, NodeInfo(host="here", pid=1, version="test"))).node_id
    with psycopg.connect(database.url, autocommit=True) as other:
        other.execute("UPDATE node SET stopped_at = lease_until WHERE id = %s", [number])

    with pytest.raises(ClaimLost, match="has lost its lease"):
        store.write_now(lambda tx: tx.target_adjust_running({1: 1}))
    store.session.abandon_node()

    assert store.write_now(lambda tx: tx.target_get_capacity([1]))[1].running == 0
