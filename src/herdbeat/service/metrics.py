"""Metrics in the text format of Prometheus: counters of the node, and gauges from the ledger. All labels are bounded.

Counters belong to the node: they begin at 0 when it starts. They are read over the control socket when somebody asks.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from herdbeat.domain.beat import BeatOutcome, MergedReason, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.events import BeatSettled, Event, RunFinished, RunStarted
from herdbeat.service.serialize import JsonObject

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LATE_AFTER = timedelta(seconds=30)
"""What counts as late here: the default of `late_after`."""

_KNOWN_REASONS = frozenset({*SkipReason, *MissedReason, *MergedReason})
_UNTIMED_SOURCES = frozenset({Source.CATCH_UP, Source.FIRST_RUN})
_SETTLED = (BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED)


class NodeMetrics:
    """Counts what a node publishes. One dictionary entry per event: cheap enough for every beat."""

    def __init__(self) -> None:
        self._buckets = [0] * (len(BUCKETS_S) + 1)
        self._lateness_sum_s = 0.0
        self._late = 0
        self._runs: Counter[str] = Counter()
        self._beats: Counter[tuple[str, str]] = Counter()

    def record(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._record_start(event)
        elif isinstance(event, RunFinished):
            self._runs[event.status] += 1
        elif isinstance(event, BeatSettled) and event.outcome in _SETTLED:
            # Only our own words become labels: a reason may be any text, and labels must stay few.
            reason = event.reason if event.reason in _KNOWN_REASONS else "other"
            self._beats[event.outcome, reason] += event.count

    def to_json(self) -> JsonObject:
        return {
            "lateness": {"buckets": list(self._buckets), "sum_s": self._lateness_sum_s},
            "late": self._late,
            "runs": dict(self._runs),
            "beats": [[outcome, reason, number] for (outcome, reason), number in self._beats.items()],
        }

    def _record_start(self, event: RunStarted) -> None:
        if not event.source.is_clock or event.attempt != 1 or event.source in _UNTIMED_SOURCES:
            return
        lateness = max(timedelta(0), event.at - event.due_at)
        self._buckets[bisect_left(BUCKETS_S, lateness.total_seconds())] += 1
        self._lateness_sum_s += lateness.total_seconds()
        self._late += lateness > LATE_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetGauges:
    """How much there is of everything now. `read_s` is how long the ledger took to say so."""

    at: datetime
    schedules: int
    paused: int
    quarantined: int
    pending: int
    running: int
    hints: int
    holds: int
    nodes: int
    read_s: float


def format_metrics(gauges: FleetGauges | None, node: Mapping[str, Any] | None) -> str:
    """Return the page. Without gauges the ledger cannot be read; without a node its counters are left out."""
    lines = [*_gauge("herdbeat_up", "Whether a node of the fleet answers.", int(node is not None))]
    if gauges is not None:
        lines += _format_gauges(gauges)
    if node is not None:
        lines += _format_node(node)
    return "\n".join(lines) + "\n"


def _format_gauges(gauges: FleetGauges) -> Iterator[str]:
    for name, meaning, value in (
        ("herdbeat_schedules", "Schedules of the fleet.", gauges.schedules),
        ("herdbeat_schedules_paused", "Schedules that are paused.", gauges.paused),
        ("herdbeat_schedules_quarantined", "Schedules that cannot be decided.", gauges.quarantined),
        ("herdbeat_beats_pending", "Beats that wait for room, a retry or a release.", gauges.pending),
        ("herdbeat_runs_active", "Runs that are active.", gauges.running),
        ("herdbeat_hints_active", "Hints in force.", gauges.hints),
        ("herdbeat_account_holds", "Accounts that are held by a usage limit.", gauges.holds),
        ("herdbeat_nodes", "Nodes that are alive.", gauges.nodes),
        ("herdbeat_store_read_seconds", "How long the ledger took to answer this scrape.", gauges.read_s),
    ):
        yield from _gauge(name, meaning, value)


def _format_node(node: Mapping[str, Any]) -> Iterator[str]:
    lateness = node["lateness"]
    yield from _head("herdbeat_lateness_seconds", "From the due instant of a clock beat to its start.", "histogram")
    total = 0
    for bound, number in zip((*map(str, BUCKETS_S), "+Inf"), lateness["buckets"], strict=True):
        total += number
        yield f'herdbeat_lateness_seconds_bucket{{le="{bound}"}} {total}'
    yield f"herdbeat_lateness_seconds_sum {lateness['sum_s']:.6f}"
    yield f"herdbeat_lateness_seconds_count {total}"
    yield from _counter("herdbeat_late_total", "Clock beats that started more than 30 s late.", [("", node["late"])])
    runs = [(f'{{status="{status}"}}', number) for status, number in sorted(node["runs"].items())]
    yield from _counter("herdbeat_runs_total", "Runs that ended, by status.", runs)
    beats = [
        (f'{{outcome="{outcome}",reason="{reason}"}}', number) for outcome, reason, number in sorted(node["beats"])
    ]
    yield from _counter("herdbeat_beats_not_run_total", "Due instants that did not run, by reason.", beats)


def _gauge(name: str, meaning: str, value: float) -> Iterator[str]:
    yield from _head(name, meaning, "gauge")
    yield f"{name} {value}"


def _counter(name: str, meaning: str, samples: Iterable[tuple[str, int]]) -> Iterator[str]:
    yield from _head(name, meaning, "counter")
    for labels, number in samples:
        yield f"{name}{labels} {number}"


def _head(name: str, meaning: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
