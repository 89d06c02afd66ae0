"""The server over a ledger in PostgreSQL: the same routes, the same tail."""

from collections.abc import Callable

import pytest
from tests.server.conftest import NOW, ServedFleet
from tests.support.postgres_nodes import set_clock

from herdbeat.server.ledger_tail import LedgerTail
from herdbeat.service.commands.base import Actor, PauseSchedules
from herdbeat.store.location import PostgresLocation

PATHS = [
    *("status", "schedules", "schedules?tag=vendor-x", "schedules/triage/issues", "schedules/triage/issues/explain"),
    *(
        "schedules/triage/issues/next",
        "schedules/triage/issues/stats",
        "schedules/triage/issues/hints",
        "runs",
        "beats",
    ),
    *(
        "runs/0001",
        "runs/0001/log",
        "beats/0001",
        "changes",
        "nodes",
        "targets",
        "targets/triage",
        "tokens",
        "cost",
        "next",
    ),
]


@pytest.fixture
def shared(serve: Callable[[str], ServedFleet], database: PostgresLocation) -> ServedFleet:
    set_clock(database, NOW)
    return serve(f'store: "{database.url}"')


def test_every_route_that_looks_answers(shared: ServedFleet) -> None:
    answers = {path: shared.client().get(f"/api/v1/{path}").status for path in PATHS}

    assert {path: status for path, status in answers.items() if status != 200} == {}


def test_a_change_is_written_once_and_told_to_listeners(shared: ServedFleet) -> None:
    reader = shared.gateway.open_own_reader()
    tail = LedgerTail(reader, NOW)

    first = shared.gateway.deliver(Actor(name="human:you"), PauseSchedules(schedules=(1,), reason="x"), "once")
    again = shared.gateway.deliver(Actor(name="human:you"), PauseSchedules(schedules=(1,), reason="x"), "once")
    told = [each.name for each in tail.poll(NOW)]
    silent = tail.poll(NOW)
    reader.close()

    assert again.result == first.result
    assert told.count("schedule.changed") == 1
    assert silent == []


def test_a_token_and_an_idempotency_key_work_there_too(shared: ServedFleet) -> None:
    client = shared.bearer("operate")

    first = client.post("/api/v1/schedules/triage/standup/runs", {}, idempotency_key="k")
    again = client.post("/api/v1/schedules/triage/standup/runs", {}, idempotency_key="k")

    assert (first.status, again.status) == (202, 200)
