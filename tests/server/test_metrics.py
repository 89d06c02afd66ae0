"""`/metrics` at the application: gauges of the ledger, for those who may read the whole fleet."""

import pytest
from tests.server.conftest import ServedFleet

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.service.metrics import NodeCounters


def test_gauges_come_from_the_ledger_while_no_node_runs(served: ServedFleet) -> None:
    answer = served.client().get("/metrics")

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert "herdbeat_up 0" in lines
    assert "herdbeat_schedules 4" in lines
    assert "herdbeat_runs_active 0" in lines


def test_metrics_need_the_right_to_read_the_whole_fleet(served: ServedFleet) -> None:
    assert served.bearer("read").get("/metrics").status == 200
    assert served.bearer("agent:triage", "bot").get("/metrics").status == 403
    assert served.client(forwarded="for=1.2.3.4").get("/metrics").status == 401


def test_a_node_that_does_not_answer_is_not_asked_a_second_time(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that hung was awaited for ten seconds, and Prometheus gave up before it read that the fleet is down."""
    asked: list[FleetHandle] = []

    def ask(handle: FleetHandle) -> list[NodeCounters]:
        asked.append(handle)
        return []

    monkeypatch.setattr(FleetHandle, "read_node_counters", ask)

    page = served.client().get("/metrics").text

    assert "herdbeat_up 0" in page
    assert asked == []
