"""Refused calls: bounded, and shown by every server that shares their ledger."""

from datetime import UTC, datetime

import pytest

from herdbeat.domain.webhook_call import RefusedCall
from herdbeat.errors import StoreUnavailable
from herdbeat.service.webhooks.refused_calls import (
    MAX_CALLS,
    MAX_CALLS_PER_SCHEDULE,
    RefusedCalls,
    load_refused_calls,
    save_refused_calls,
)
from herdbeat.store.location import PostgresLocation, create_store


def refuse(number: int, schedule: str = "devops/deploy") -> RefusedCall:
    at = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
    return RefusedCall(at=at, schedule=schedule, peer="10.0.0.1", size=number, status=401, reason="not_proven")


def save_of_one_server(location: PostgresLocation, *calls: RefusedCall) -> None:
    server = RefusedCalls()
    for call in calls:
        server.add(call)
    save_refused_calls(location, server.take_unsaved())


@pytest.fixture
def ledger(database: PostgresLocation) -> PostgresLocation:
    store = create_store(database)
    store.open()
    store.close()
    return database


def test_every_server_of_a_database_shows_the_refused_calls_of_all(ledger: PostgresLocation) -> None:
    save_of_one_server(ledger, refuse(1), refuse(2, 'odd "name"/\\x'))
    save_of_one_server(ledger, refuse(3))

    found = load_refused_calls(ledger).newest()

    assert found == [refuse(3), refuse(2, 'odd "name"/\\x'), refuse(1)]


def test_a_database_keeps_the_newest_calls_of_each_schedule_and_of_all(ledger: PostgresLocation) -> None:
    save_of_one_server(ledger, *(refuse(number) for number in range(MAX_CALLS_PER_SCHEDULE + 5)))
    for number in range(MAX_CALLS // MAX_CALLS_PER_SCHEDULE):
        save_of_one_server(ledger, *(refuse(each, f"a/{number}") for each in range(MAX_CALLS_PER_SCHEDULE)))

    found = load_refused_calls(ledger).newest()

    assert len(found) == MAX_CALLS
    assert [each.schedule for each in found].count("a/0") == MAX_CALLS_PER_SCHEDULE
    assert "devops/deploy" not in {each.schedule for each in found}  # the oldest have gone


def test_calls_that_could_not_be_written_are_written_with_the_next_ones() -> None:
    calls = RefusedCalls()
    calls.add(refuse(1))
    unsaved = calls.take_unsaved()
    calls.add(refuse(2))
    calls.put_back(unsaved)

    assert calls.take_unsaved().new == (refuse(1), refuse(2))
    assert calls.is_saved


def test_a_database_that_cannot_be_reached_is_reported(ledger: PostgresLocation) -> None:
    away = PostgresLocation(url="postgresql://nobody@127.0.0.1:1/none", state_dir=ledger.state_dir)

    with pytest.raises(StoreUnavailable):
        load_refused_calls(away)
