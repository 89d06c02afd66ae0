"""Writes that nobody waits for: what is wrong with one is still heard, by the right person and before the commit."""

from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from tests.support.postgres_nodes import build_fleet
from tests.support.store_contract import build_beat

from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.base import ScheduleSnapshot, TargetRow, Transaction
from herdbeat.store.location import DEFAULT_LEASE, PostgresLocation
from herdbeat.store.postgres.connection import connect
from herdbeat.store.postgres.statements import PostgresConnection
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.postgres.transaction import Prefetcher

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


@pytest.fixture
def store(database: PostgresLocation) -> Iterator[PostgresStore]:
    found = PostgresStore(database)
    found.open()
    found.write_now(lambda tx: apply_fleet(tx, build_fleet("one", "two"), NOW))
    yield found
    found.close()


@pytest.fixture
def statements(database: PostgresLocation) -> Iterator[PostgresConnection]:
    connection = connect(database.url, timeout=DEFAULT_LEASE)
    with connection.pipeline():
        yield PostgresConnection(connection, "here")
    connection.close()


def standing_of(tx: Transaction, name: str) -> ScheduleSnapshot:
    target, _ = tx.targets()[name]
    (number, _), *_ = tx.schedule_list_by_target([target]).values()
    return tx.schedules([number])[number]


def test_a_write_of_megabytes_hung_for_ever(store: PostgresStore) -> None:
    rows = [TargetRow(f"t{number}", "callable", "x" * 2_000, "", 1) for number in range(5_000)]

    store.write_now(lambda tx: tx.add_targets(rows))

    assert len(store.write_now(lambda tx: tx.targets())) == 5_002


def test_a_value_that_no_column_can_hold_fails_only_the_write_that_has_it(store: PostgresStore) -> None:
    target, _ = store.write_now(lambda tx: tx.targets())["one"]

    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        store.write_now(lambda tx: tx.target_adjust_running({target: 2**40}))
    store.write_now(lambda tx: tx.target_adjust_running({target: 1}))

    assert store.write_now(lambda tx: tx.target_get_capacity([target]))[target].running == 1


def test_a_duplicate_beat_is_noticed_and_the_transaction_is_repeated_with_checks(store: PostgresStore) -> None:
    times: list[list[int | None]] = []

    def start_both(tx: Transaction) -> list[int | None]:
        ids = tx.add_beats([build_beat(standing_of(tx, name)) for name in ("one", "two")])
        times.append(ids)
        return ids

    store.write_now(lambda tx: tx.add_beats([build_beat(standing_of(tx, "one"))]))
    known, new = store.write_now(start_both)

    assert known is None
    assert new is not None
    assert len(times) == 2
    assert None not in times[0]  # taken for new, until the answer came


def test_prefetched_ids_are_used_up_before_more_are_fetched(statements: PostgresConnection) -> None:
    ahead = Prefetcher(statements)
    ahead.reserve_ids(2)

    beats, runs = ahead.take_beat_ids(3), ahead.take_run_ids(1)

    assert len(set(beats)) == 3
    assert runs == [1]
    assert ahead.take_run_ids(1) == [2]


def test_a_prefetched_answer_about_other_targets_is_not_used(statements: PostgresConnection) -> None:
    ahead = Prefetcher(statements)
    ahead.send("target_capacity", [1, 2])
    ahead.send("budgets", [1, 2])

    assert ahead.receive("target_capacity", [1]) is None
    assert ahead.receive("budgets", [2, 1]) == []
    assert ahead.receive("budgets", [2, 1]) is None  # asked again, it may have changed


def test_a_wrong_row_count_is_raised_with_the_next_answer(statements: PostgresConnection) -> None:
    gone = statements.execute("renew_node", node=4_711, now=0, lease=0)
    statements.expect_row_count(gone, 1, lambda: LookupError("no such node"))

    with pytest.raises(LookupError, match="no such node"):
        statements.query_one("database_time")


def test_a_row_count_without_a_later_query_is_checked_by_the_flush(statements: PostgresConnection) -> None:
    statements.expect_row_count(
        statements.execute("renew_node", node=4_711, now=0, lease=0), 0, lambda: LookupError("there is one")
    )
    statements.flush()

    assert statements.execute("renew_node", node=4_711, now=0, lease=0)() == 0
