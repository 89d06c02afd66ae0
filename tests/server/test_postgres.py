"""The server over a ledger in PostgreSQL: the same routes, the same tail."""

import json
from collections.abc import Callable
from contextlib import closing

import pytest
from tests.server.conftest import NOW, ServedFleet
from tests.support.asgi_client import AsgiClient
from tests.support.postgres_cut_proxy import open_cut_proxy
from tests.support.postgres_nodes import set_clock

from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.server.ledger_tail import LedgerTail
from herdbeat.service.commands.base import Actor, PauseSchedules
from herdbeat.service.metrics import NodeMetrics
from herdbeat.store.base import Transaction
from herdbeat.store.location import PostgresLocation, StoreHandle, create_store

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


def test_metrics_have_the_counters_of_every_live_node(shared: ServedFleet, database: PostgresLocation) -> None:
    late = json.dumps({**NodeMetrics().to_json(), "late": 3})
    with closing(create_store(database)) as store:
        store.open()
        for host in ("rack-1", "rack-2"):
            _join_with_metrics(store, host, late)

        lines = shared.client().get("/metrics").text.splitlines()

    assert "herdbeat_up 1" in lines
    assert [line.split(":")[0] for line in lines if line.startswith("herdbeat_late_total{")] == [
        'herdbeat_late_total{node="rack-1',
        'herdbeat_late_total{node="rack-2',
    ]
    assert all(line.endswith(" 3") for line in lines if line.startswith("herdbeat_late_total{"))


def _join_with_metrics(store: StoreHandle, host: str, data: str) -> None:
    def join(tx: Transaction) -> None:
        node = register_node(tx, NOW, NodeInfo(host=host, pid=1, version="test"))
        tx.node_set_metrics(node.node_id, data, NOW)

    store.write_now(join)


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


REQUESTS = [
    ("GET", "/api/v1/status", None),
    ("GET", "/metrics", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("POST", "/api/v1/session", {"token": "hbt_unknown"}),
    ("POST", "/api/v1/schedules/triage/issues/pause", {}),
    ("POST", "/chat/slack/triage", {}),
    ("POST", "/hooks/triage/issues", {}),
    ("GET", "/badge/triage/issues.svg", None),
    ("GET", "/api/v1/refused-calls", None),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
@pytest.mark.parametrize("credentials", ["Bearer hbt_wrong", ""])
def test_a_database_that_is_away_is_not_named_to_strangers(
    serve: Callable[[str], ServedFleet],
    database: PostgresLocation,
    method: str,
    path: str,
    body: dict[str, object] | None,
    credentials: str,
) -> None:
    """The answer had the address, the user and the name of the database. It is no wrong credential, either."""
    set_clock(database, NOW)
    with open_cut_proxy(database.url) as (proxy, url):
        shared, port = serve(f'store: "{url}"'), str(proxy.port)
        proxy.is_open = False
        shared.gateway.close()

        answer = AsgiClient(app=shared.app, headers={"authorization": credentials} if credentials else {}).send(
            method, path, body
        )

    assert (answer.status, answer.headers["retry-after"]) == (503, "5"), answer.text
    assert not [each for each in (port, "127.0.0.1", "postgres", database.url) if each in answer.text]
