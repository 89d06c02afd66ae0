"""A span per run for an OpenTelemetry collector: OTLP over HTTP, as JSON, without any further package.

The standard variables switch it on: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT`, to which
`/v1/traces` is added. Spans are made from events and sent by a thread. The loop never waits for a collector: what it
cannot take in time is dropped and counted.
"""

import json
import logging
import queue
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import unquote

from herdbeat.domain.ids import display_name
from herdbeat.domain.run import RunStatus
from herdbeat.events import Event, RunFinished, RunStarted
from herdbeat.redaction import redact
from herdbeat.service.serialize import JsonObject
from herdbeat.timestamps import format_timestamp, to_micros

log = logging.getLogger(__name__)

MAX_WAITING_SPANS = 2_048
MAX_BATCH_SPANS = 256
MAX_ACTIVE_RUNS = 10_000
SEND_TIMEOUT_S = 5.0
COLLECT_S = 1.0
_MAX_ERROR_CHARS = 500
_KIND_INTERNAL = 1
_STATUS_OK, _STATUS_ERROR = 1, 2
_FAILURES = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTarget:
    """Where spans go, and as whose."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    service: str = "herdbeat"


def find_trace_target(environ: Mapping[str, str]) -> TraceTarget | None:
    """Return what the standard variables name; None if they name nothing, or another protocol than HTTP."""
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
    url = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or (f"{base}/v1/traces" if base else "")
    if not url or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((environ[name] for name in names if environ.get(name)), "http/json")
    if not protocol.startswith("http/") or not url.startswith(("http://", "https://")):
        log.warning("no traces are sent protocol=%s herdbeat speaks OTLP over HTTP; set the port of that", protocol)
        return None
    written = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = (part.partition("=") for part in written.split(",") if "=" in part)
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    return TraceTarget(url=url, headers=headers, service=environ.get("OTEL_SERVICE_NAME") or "herdbeat")


def build_span(started: RunStarted | None, finished: RunFinished) -> JsonObject | None:
    """Return the span of a run in the JSON of OTLP; None for one that never began."""
    began_at = finished.started_at or (started.at if started is not None else None)
    if began_at is None:
        return None
    target, _, name = finished.schedule.rpartition("/")
    label = display_name(target, name)
    values: dict[str, object] = {
        "herdbeat.schedule": label,
        "herdbeat.target": target,
        "herdbeat.run": finished.run_id,
        "herdbeat.outcome": str(finished.status),
    }
    if started is not None:
        lateness = max(timedelta(0), started.at - started.due_at)
        values |= {
            "herdbeat.due_at": format_timestamp(started.due_at),
            "herdbeat.source": str(started.source),
            "herdbeat.attempt": started.attempt,
            "herdbeat.lateness_ms": lateness // timedelta(milliseconds=1),
        }
    is_failure = finished.status in _FAILURES
    status: JsonObject = {"code": _STATUS_ERROR if is_failure else _STATUS_OK}
    if is_failure and finished.error:
        status["message"] = redact(finished.error)[:_MAX_ERROR_CHARS]
    return {
        "traceId": secrets.token_hex(16),
        "spanId": secrets.token_hex(8),
        "name": f"run {label}",
        "kind": _KIND_INTERNAL,
        "startTimeUnixNano": _to_nanos(began_at),
        "endTimeUnixNano": _to_nanos(max(began_at, finished.at)),
        "attributes": [_build_attribute(key, value) for key, value in values.items()],
        "status": status,
    }


def build_request(spans: list[JsonObject], service: str, fleet: str) -> JsonObject:
    """Return the body of one export."""
    resource = {"attributes": [_build_attribute("service.name", service), _build_attribute("herdbeat.fleet", fleet)]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "herdbeat"}, "spans": spans}]}]}


def _build_attribute(key: str, value: object) -> JsonObject:
    is_number = isinstance(value, int)
    return {"key": key, "value": {"intValue" if is_number else "stringValue": str(value)}}


def _to_nanos(moment: datetime) -> str:
    return str(to_micros(moment) * 1_000)


class RunTracer:
    """Makes a span of each run that it sees start and end, and sends them from a thread of its own."""

    def __init__(self, target: TraceTarget, fleet: str) -> None:
        self._target, self._fleet = target, fleet
        self._started: dict[int, RunStarted] = {}
        self._spans: queue.Queue[JsonObject | None] = queue.Queue(MAX_WAITING_SPANS)
        self._has_failed = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._send_until_closed, name="traces", daemon=True)
        self._thread.start()

    def record(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            if len(self._started) < MAX_ACTIVE_RUNS:
                self._started[event.run_id] = event
        elif isinstance(event, RunFinished):
            span = build_span(self._started.pop(event.run_id, None), event)
            if span is not None:
                self._put(span)

    def close(self) -> None:
        """Send what waits, for a few seconds at most."""
        try:
            self._spans.put(None, timeout=SEND_TIMEOUT_S)
        except queue.Full:
            return
        self._thread.join(2 * SEND_TIMEOUT_S)

    def _put(self, span: JsonObject) -> None:
        try:
            self._spans.put_nowait(span)
        except queue.Full:
            self.dropped += 1

    def _send_until_closed(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._collect()
            if batch:
                self._send(batch)

    def _collect(self) -> tuple[list[JsonObject], bool]:
        """Return the next spans, and whether more may come. Waits for the first, then briefly for others."""
        batch: list[JsonObject] = []
        timeout: float | None = None
        while len(batch) < MAX_BATCH_SPANS:
            try:
                span = self._spans.get(timeout=timeout)
            except queue.Empty:
                break
            if span is None:
                return batch, False
            batch.append(span)
            timeout = COLLECT_S
        return batch, True

    def _send(self, batch: list[JsonObject]) -> None:
        body = json.dumps(build_request(batch, self._target.service, self._fleet)).encode()
        headers = {**self._target.headers, "Content-Type": "application/json"}
        request = urllib.request.Request(self._target.url, data=body, headers=headers)  # noqa: S310 -- http(s), checked
        try:
            with urllib.request.urlopen(request, timeout=SEND_TIMEOUT_S):  # noqa: S310 -- as above
                self._has_failed = False
        except (urllib.error.URLError, OSError, ValueError) as error:
            self.dropped += len(batch)
            if not self._has_failed:  # once: a collector that is down would fill the log
                log.warning(
                    "traces not sent url=%s error=%s later spans are tried again", redact(self._target.url), error
                )
            self._has_failed = True
