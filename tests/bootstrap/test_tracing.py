"""A span per run, as a collector receives it."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import running_fleet
from herdbeat.bootstrap.tracing import (
    MAX_WAITING_SPANS,
    RunTracer,
    TraceTarget,
    build_request,
    build_span,
    find_trace_target,
)
from herdbeat.domain.decision import Source
from herdbeat.domain.run import RunStatus
from herdbeat.events import Event, RunFinished, RunStarted
from herdbeat.redaction import register_secrets

DUE = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
STARTED = RunStarted(DUE + timedelta(milliseconds=250), "triage/check", 7, Source.BASELINE_CRON, DUE, 2)


def finish(status: RunStatus = RunStatus.SUCCEEDED, error: str = "") -> RunFinished:
    return RunFinished(DUE + timedelta(seconds=3), "triage/check", 7, status, error, STARTED.at, None)


def attributes(span: Any) -> dict[str, str]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


class Collector(HTTPServer):
    """A fake collector on loopback that keeps what it receives."""

    def __init__(self) -> None:
        self.received: Queue[tuple[str, dict[str, str], Any]] = Queue()
        self.status = 200
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.put((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


def test_a_span_has_the_schedule_the_outcome_and_how_late_it_was() -> None:
    span: Any = build_span(STARTED, finish())

    assert span["name"] == "run triage/check"
    assert span["startTimeUnixNano"] == str(int(STARTED.at.timestamp() * 1_000_000) * 1_000)
    assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == 2_750_000_000
    assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
    assert span["status"] == {"code": 1}
    assert attributes(span) == {
        "herdbeat.schedule": "triage/check",
        "herdbeat.target": "triage",
        "herdbeat.run": "7",
        "herdbeat.outcome": "succeeded",
        "herdbeat.due_at": "2026-03-26T13:04:00Z",
        "herdbeat.source": "baseline-cron",
        "herdbeat.attempt": "2",
        "herdbeat.lateness_ms": "250",
    }


def test_a_failure_is_an_error_without_secrets() -> None:
    register_secrets(["s3cret-of-the-span"])

    span: Any = build_span(None, finish(RunStatus.FAILED, "no access with s3cret-of-the-span"))

    assert span["status"] == {"code": 2, "message": "no access with ***"}


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, "http://c/x"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "file:///etc/passwd"}, None),
    ],
)
def test_the_standard_variables_name_the_collector(environ: dict[str, str], url: str | None) -> None:
    target = find_trace_target(environ)

    assert (None if target is None else target.url) == url


def test_headers_are_sent_and_spans_arrive_before_the_end(collector: Collector) -> None:
    tracer = RunTracer(TraceTarget(url=f"{collector.url}/v1/traces", headers={"X-Key": "abc"}), "zoo")

    tracer.record(STARTED)
    tracer.record(finish())
    tracer.close()

    path, headers, body = collector.received.get(timeout=60)
    assert (path, headers["X-Key"], headers["Content-Type"]) == ("/v1/traces", "abc", "application/json")
    (span,) = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert body == build_request([span], "herdbeat", "zoo")
    assert attributes(span)["herdbeat.outcome"] == "succeeded"


def test_a_collector_that_refuses_costs_spans_and_nothing_else(collector: Collector) -> None:
    collector.status = 500
    tracer = RunTracer(TraceTarget(url=collector.url), "zoo")

    for _ in range(3):
        tracer.record(finish())
    tracer.close()

    assert tracer.dropped == 3


def test_a_collector_that_is_gone_never_blocks_the_loop() -> None:
    tracer = RunTracer(TraceTarget(url="http://127.0.0.1:9/v1/traces"), "zoo")

    for _ in range(3 * MAX_WAITING_SPANS):
        tracer.record(finish())
    tracer.close()

    assert tracer.dropped > 0


async def test_a_real_fleet_sends_a_span_of_its_run(collector: Collector, tmp_path: Path) -> None:
    command = "{ name: quick, command: [echo, hi], every: 1h }"
    text = f"version: 1\ntimezone: UTC\nfleet: {{ name: zoo }}\ncommands: [{command}]\n"
    (tmp_path / "herdbeat.yaml").write_text(text, encoding="utf-8")
    fleet = load_config(str(tmp_path), {}, tmp_path).fleet
    assert fleet is not None
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "PATH": "/usr/bin:/bin"}

    def stop_after_run(event: Event) -> None:
        if isinstance(event, RunFinished):
            running.node.stop(timedelta(seconds=5))

    async with running_fleet(fleet, environ=environ, folder=tmp_path, listener=stop_after_run) as running:
        await running.wait_stopped()

    _, _, body = collector.received.get(timeout=60)
    (span,) = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert attributes(span)["herdbeat.schedule"] == "quick"
    assert attributes(span)["herdbeat.outcome"] == "succeeded"
