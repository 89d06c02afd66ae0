"""Metrics: what a node counts, and the text that Prometheus reads."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.run import RunStatus
from herdbeat.events import BeatSettled, RunFinished, RunStarted
from herdbeat.service.metrics import FleetGauges, NodeCounters, NodeMetrics, format_metrics, parse_node_counters

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
GAUGES = FleetGauges(
    at=NOW, schedules=4, paused=1, quarantined=0, pending=2, running=3, hints=1, holds=0, nodes=1, read_s=0.002
)


def start(lateness_s: float, source: Source = Source.BASELINE_CRON, attempt: int = 1) -> RunStarted:
    return RunStarted(NOW, "a", 1, source, NOW - timedelta(seconds=lateness_s), attempt)


def settle(outcome: BeatOutcome, reason: str, count: int = 1) -> BeatSettled:
    return BeatSettled(NOW, "a", outcome, reason, NOW, NOW, count)


def page(*events: RunStarted | RunFinished | BeatSettled) -> list[str]:
    metrics = NodeMetrics()
    for event in events:
        metrics.record(event)
    return format_metrics(GAUGES, [NodeCounters(data=metrics.to_json())]).splitlines()


def test_lateness_is_a_histogram_of_clock_beats_alone() -> None:
    lines = page(start(0.02), start(40), start(50, Source.WEBHOOK), start(50, attempt=2))

    assert 'herdbeat_lateness_seconds_bucket{le="0.01"} 0' in lines
    assert 'herdbeat_lateness_seconds_bucket{le="0.025"} 1' in lines
    assert 'herdbeat_lateness_seconds_bucket{le="60.0"} 2' in lines
    assert 'herdbeat_lateness_seconds_bucket{le="+Inf"} 2' in lines
    assert "herdbeat_lateness_seconds_count 2" in lines
    assert "herdbeat_late_total 1" in lines


def test_runs_are_counted_by_status_and_unrun_instants_by_reason() -> None:
    finished = RunFinished(NOW, "a", 1, RunStatus.FAILED, "it broke", NOW, None)

    lines = page(
        finished,
        replace(finished, status=RunStatus.SUCCEEDED),
        settle(BeatOutcome.MISSED, "scheduler_down", 5),
        settle(BeatOutcome.SKIPPED, "paused"),
        settle(BeatOutcome.PENDING, "at_capacity"),
    )

    assert 'herdbeat_runs_total{status="failed"} 1' in lines
    assert 'herdbeat_runs_total{status="succeeded"} 1' in lines
    assert 'herdbeat_beats_not_run_total{outcome="missed",reason="scheduler_down"} 5' in lines
    assert 'herdbeat_beats_not_run_total{outcome="skipped",reason="paused"} 1' in lines
    assert not [line for line in lines if "at_capacity" in line]


def test_no_text_from_outside_becomes_a_label() -> None:
    lines = page(settle(BeatOutcome.SKIPPED, 'x"} 1\nevil 1'))

    assert 'herdbeat_beats_not_run_total{outcome="skipped",reason="other"} 1' in lines
    assert not [line for line in lines if "evil" in line]


def test_without_a_node_only_gauges_are_there_and_up_is_0() -> None:
    lines = format_metrics(GAUGES, []).splitlines()

    assert "herdbeat_up 0" in lines
    assert "herdbeat_beats_pending 2" in lines
    assert not [line for line in lines if "lateness" in line]


def test_a_ledger_that_cannot_be_read_leaves_the_node_visible() -> None:
    lines = format_metrics(None, [NodeCounters(data=NodeMetrics().to_json())]).splitlines()

    assert "herdbeat_up 1" in lines
    assert "herdbeat_lateness_seconds_count 0" in lines


def test_nodes_that_share_a_ledger_have_series_of_their_own() -> None:
    first, second = NodeMetrics(), NodeMetrics()
    first.record(start(0.02))
    second.record(start(40))
    nodes = [
        parse_node_counters(7, "rack-1", json.dumps(first.to_json())),
        parse_node_counters(8, 'evil"}\n', json.dumps(second.to_json())),
    ]

    lines = format_metrics(GAUGES, nodes).splitlines()

    assert 'herdbeat_lateness_seconds_count{node="rack-1:7"} 1' in lines
    assert 'herdbeat_late_total{node="rack-1:7"} 0' in lines
    assert 'herdbeat_late_total{node="evil---:8"} 1' in lines
    assert 'herdbeat_lateness_seconds_bucket{node="rack-1:7",le="0.025"} 1' in lines
    assert lines.count("# TYPE herdbeat_lateness_seconds histogram") == 1
