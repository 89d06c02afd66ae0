"""Metrics in the text format of Prometheus: counters of the node, and gauges from the ledger. All labels are bounded.

Counters belong to the node: they begin at 0 when it starts. They are read over the control socket on request.
Nodes that share a ledger write theirs into it every few seconds, so any server can report all of them.
"""

import asyncio
import json
import logging
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from herdbeat.domain.beat import BeatOutcome, MergedReason, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.events import BeatSettled, Event, NodeReady, RunFinished, RunStarted
from herdbeat.scheduler.timers import Timer
from herdbeat.service.serialize import JsonObject
from herdbeat.store.base import Store, Transaction

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
PUBLISH_INTERVAL = timedelta(seconds=10)
JOIN_INTERVAL = timedelta(seconds=1)
FORGET_AFTER = timedelta(days=1)
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
        self.node_id: int | None = None
        """The number of the node, as soon as it has one."""

    def record(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._record_start(event)
        elif isinstance(event, NodeReady):
            self.node_id = event.node_id
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


async def publish_metrics(metrics: NodeMetrics, store: Store, timer: Timer) -> None:
    """Write the counters of this node into a shared ledger until cancelled. Nothing depends on them."""
    never = asyncio.Event()
    while True:
        try:
            if metrics.node_id is not None:
                await store.write(lambda tx: _write_metrics(tx, metrics, timer.now()))
        except (StoreUnavailable, ClaimLost) as error:
            log.info("metrics not published error=%s", error)
        interval = JOIN_INTERVAL if metrics.node_id is None else PUBLISH_INTERVAL
        await timer.sleep_until(timer.now() + interval, never)


def _write_metrics(tx: Transaction, metrics: NodeMetrics, now: datetime) -> None:
    assert metrics.node_id is not None
    tx.node_set_metrics(metrics.node_id, json.dumps(metrics.to_json()), now)
    tx.node_drop_metrics(now - FORGET_AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounters:
    """The counters of one node. `label` names it among nodes that share a ledger; "" if there is only one."""

    data: Mapping[str, Any]
    label: str = ""


def parse_node_counters(node_id: int, host: str, data: str) -> NodeCounters:
    """Return what a node has written. Its label is its host and its number, of characters that need no escape."""
    return NodeCounters(data=json.loads(data), label=f"{re.sub(r'[^A-Za-z0-9_.-]', '-', host)}:{node_id}")


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


def format_metrics(gauges: FleetGauges | None, nodes: Sequence[NodeCounters]) -> str:
    """Return the page. Without gauges the ledger cannot be read; without a node there are no counters."""
    lines = [*_format_gauge("herdbeat_up", "Whether a node of the fleet answers.", int(bool(nodes)))]
    if gauges is not None:
        lines += _format_gauges(gauges)
    if nodes:
        lines += _format_nodes(nodes)
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
        yield from _format_gauge(name, meaning, value)


def _format_nodes(nodes: Sequence[NodeCounters]) -> Iterator[str]:
    yield from _format_head(
        "herdbeat_lateness_seconds", "From the due instant of a clock beat to its start.", "histogram"
    )
    for node in nodes:
        yield from _format_lateness(node)
    late = [(_format_labels(node), node.data["late"]) for node in nodes]
    yield from _format_counter("herdbeat_late_total", "Clock beats that started more than 30 s late.", late)
    runs = [
        (_format_labels(node, status=status), number)
        for node in nodes
        for status, number in sorted(node.data["runs"].items())
    ]
    yield from _format_counter("herdbeat_runs_total", "Runs that ended, by status.", runs)
    beats = [
        (_format_labels(node, outcome=outcome, reason=reason), number)
        for node in nodes
        for outcome, reason, number in sorted(node.data["beats"])
    ]
    yield from _format_counter("herdbeat_beats_not_run_total", "Due instants that did not run, by reason.", beats)


def _format_lateness(node: NodeCounters) -> Iterator[str]:
    lateness, total = node.data["lateness"], 0
    for bound, number in zip((*map(str, BUCKETS_S), "+Inf"), lateness["buckets"], strict=True):
        total += number
        yield f"herdbeat_lateness_seconds_bucket{_format_labels(node, le=bound)} {total}"
    yield f"herdbeat_lateness_seconds_sum{_format_labels(node)} {lateness['sum_s']:.6f}"
    yield f"herdbeat_lateness_seconds_count{_format_labels(node)} {total}"


def _format_labels(node: NodeCounters, **values: str) -> str:
    pairs = {**({"node": node.label} if node.label else {}), **values}
    text = ",".join(f'{name}="{value}"' for name, value in pairs.items())
    return f"{{{text}}}" if text else ""


def _format_gauge(name: str, meaning: str, value: float) -> Iterator[str]:
    yield from _format_head(name, meaning, "gauge")
    yield f"{name} {value}"


def _format_counter(name: str, meaning: str, samples: Iterable[tuple[str, int]]) -> Iterator[str]:
    yield from _format_head(name, meaning, "counter")
    for labels, number in samples:
        yield f"{name}{labels} {number}"


def _format_head(name: str, meaning: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
