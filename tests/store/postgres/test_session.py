"""The writer's connection on bad days: refused, cut, deadlocked, behind a pooler, newer than we are."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.postgres_cut_proxy import open_cut_proxy
from tests.support.postgres_nodes import ManualNode, open_nodes

from herdbeat.clock import SystemClock
from herdbeat.errors import StoreUnavailable
from herdbeat.store.base import TargetRow, Transaction
from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.notify import PostgresSharedStore
from herdbeat.store.postgres.store import PostgresStore


def opened(url: str) -> PostgresStore:
    store = PostgresStore(PostgresLocation(url=url, state_dir=Path()))
    store.open()
    return store


def put(tx: Transaction, name: str) -> None:
    tx.add_targets([TargetRow(name, "callable", "{}", "", 1)])


@pytest.mark.parametrize(
    ("url", "said", "mend"),
    [
        ("postgresql://who:secret@127.0.0.1:1/fleet", "127.0.0.1", "Check that the server is running"),
        ("postgresql://who:secret@[::1/fleet", "store URL is invalid", "percent-encoded"),
    ],
    ids=["away", "malformed"],
)
def test_a_server_that_cannot_be_reached_is_said_calmly_and_without_the_password(
    url: str, said: str, mend: str
) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        opened(url)

    assert said in refused.value.message
    assert mend in refused.value.hint
    assert "secret" not in f"{refused.value} {refused.value.hint}"


def test_a_database_that_is_not_there_is_named(database: PostgresLocation) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        opened(database.url.replace("/t", "/nowhere_t", 1))

    assert "does not exist" in refused.value.message
    assert "createdb" in refused.value.hint


def test_a_ledger_that_is_newer_than_this_program_is_left_alone(database: PostgresLocation) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key IN ('schema', 'understood_by')")

    with pytest.raises(StoreUnavailable, match="newer version of herdbeat"):
        opened(database.url)


def test_many_nodes_may_start_on_an_empty_database_at_once(database: PostgresLocation) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    stores = [PostgresStore(database) for _ in range(4)]

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(PostgresStore.open, stores))

    for number, store in enumerate(stores):
        store.write_now(lambda tx, number=number: put(tx, f"t{number}"))  # type: ignore[misc]
    assert len(stores[0].write_now(lambda tx: tx.targets())) == 4
    for store in stores:
        store.close()


def test_a_connection_that_is_cut_is_made_again(database: PostgresLocation) -> None:
    store = opened(database.url)
    store.write_now(lambda tx: put(tx, "before"))

    def cut_and_put(tx: Transaction) -> None:
        with psycopg.connect(database.url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'herdbeat' AND datname = current_database()"
            )
        put(tx, "lost")

    with pytest.raises(StoreUnavailable):
        store.write_now(cut_and_put)
    store.write_now(lambda tx: put(tx, "after"))

    assert sorted(store.write_now(lambda tx: tx.targets())) == ["after", "before"]
    store.close()


@contextmanager
def silent_in_pipeline(url: str, name: str) -> Iterator[psycopg.Connection[Any]]:
    """A client that has sent a part of a transaction without an end, as one does that is stopped in its middle."""
    with (
        psycopg.connect(url, autocommit=True, application_name=name) as connection,
        suppress(psycopg.OperationalError),
        connection.pipeline(),
    ):
        connection.execute("BEGIN")
        connection.execute("UPDATE target SET running = running WHERE name = %s", [name])
        connection.execute("SELECT 1").fetchone()
        yield connection


def test_a_client_that_is_silent_in_the_middle_of_a_pipeline_does_not_keep_its_locks(
    database: PostgresLocation,
) -> None:
    """The server has no timeout for that before version 17: the other nodes claimed nothing until it continued."""
    store = PostgresStore(database, lease=timedelta(seconds=2))
    store.open()
    store.write_now(lambda tx: put(tx, "herdbeat"))

    with silent_in_pipeline(database.url, "herdbeat") as silent:
        with pytest.raises(StoreUnavailable, match="timeout"):  # it may still continue
            store.write_now(lambda tx: tx.target_count_running([1]))
        changed = [retry(store) for _ in range(5)]

        with pytest.raises(psycopg.OperationalError):
            silent.execute("SELECT 1").fetchone()
    assert changed[-1] == 1
    store.close()


def retry(store: PostgresStore) -> int:
    """Return how many targets it could lock."""
    with suppress(StoreUnavailable):
        return len(store.write_now(lambda tx: tx.target_count_running([1])))
    return 0


def test_sessions_that_work_read_or_belong_to_other_programs_are_not_ended(database: PostgresLocation) -> None:
    store = opened(database.url)
    for name in ("herdbeat", "somebody's"):
        store.write_now(lambda tx, name=name: put(tx, name))  # type: ignore[misc]
    shared = PostgresSharedStore(store)

    with (
        silent_in_pipeline(database.url, "herdbeat") as recent,  # silent for less than this store's 20 seconds
        silent_in_pipeline(database.url, "somebody's") as foreign,
        psycopg.connect(database.url, application_name="herdbeat") as reading,
    ):
        reading.execute("SELECT 1")
        shared.end_abandoned_sessions()
        store.session.idle_ms = 0
        recent.execute("COMMIT")
        recent.execute("SELECT 1").fetchone()

        shared.end_abandoned_sessions()

        for each in (recent, foreign, reading):
            each.execute("SELECT 1").fetchone()
    shared.close()
    store.close()


@pytest.mark.parametrize(("how", "is_there"), [("before", False), ("after", True), ("shut down", True)])
def test_a_node_finds_out_what_became_of_a_commit_whose_answer_was_lost(
    database: PostgresLocation, how: str, is_there: bool
) -> None:
    with (
        open_cut_proxy(database.url) as (proxy, url),
        open_nodes(PostgresLocation(url=url, state_dir=Path()), 1) as (node,),
    ):
        node.join(SystemClock().now())
        proxy.how, proxy.rate = how, 1.0

        if is_there:
            node.store.write_now(lambda tx: put(tx, "ours"))
        else:
            with pytest.raises(StoreUnavailable):
                node.store.write_now(lambda tx: put(tx, "ours"))

        proxy.rate = 0.0
        assert ("ours" in node.store.write_now(lambda tx: tx.targets())) is is_there


def test_a_writer_without_a_node_gets_an_error_if_the_outcome_of_a_commit_is_unknown(
    database: PostgresLocation,
) -> None:
    with open_cut_proxy(database.url) as (proxy, url):
        store = opened(url)
        proxy.how, proxy.rate = "after", 1.0

        with pytest.raises(StoreUnavailable, match="during a commit") as told:
            store.write_now(lambda tx: put(tx, "perhaps"))

        assert "herdbeat changes" in told.value.hint
        store.close()


def test_two_deadlocked_transactions_are_both_committed(database: PostgresLocation) -> None:
    """In an order that no work of ours has, but somebody's might."""
    with open_nodes(database, 2) as (first, second):
        names = ("a", "b")
        for name in names:
            first.store.write_now(lambda tx, name=name: put(tx, name))  # type: ignore[misc]
        both = threading.Barrier(2, timeout=10)
        seen: list[str] = []

        def cross(node: ManualNode, order: tuple[str, str]) -> None:
            attempts = count(1)

            def work(tx: Any) -> None:
                ids = {name: number for name, (number, _) in tx.targets().items()}
                tx.target_adjust_running({ids[order[0]]: 1})
                if next(attempts) == 1:
                    both.wait()  # the one that is sent away comes back alone
                tx.target_adjust_running({ids[order[1]]: 1})

            node.store.write_now(work)
            seen.append(order[0])

        threads = [threading.Thread(target=cross, args=args) for args in ((first, ("a", "b")), (second, ("b", "a")))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        rooms = first.store.write_now(lambda tx: tx.target_get_capacity([1, 2]))
    assert sorted(seen) == ["a", "b"]
    assert [room.running for room in rooms.values()] == [2, 2]


def test_behind_a_pooler_nothing_is_prepared_any_more(database: PostgresLocation) -> None:
    """What a transaction pooler does to us: the statement was prepared on another connection than this one."""
    store = opened(database.url)
    for _ in range(8):
        store.write_now(lambda tx: tx.targets())
    forget = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"  # said like this, the driver does not hear it
    store.write_now(lambda tx: tx._connection._connection.execute(forget))  # type: ignore[attr-defined]

    found = store.write_now(lambda tx: tx.targets())

    assert found == {}
    assert store.session._connector.use_prepared is False
    store.close()
