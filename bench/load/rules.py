"""Processor time of a beat whose schedule has rules, and of one that has none."""

from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from time import process_time

from bench.load.bulk_insert import ScheduleBatch, insert_schedules
from bench.load.run_monitor import RunMonitor
from bench.load.running_node import open_store, running_node
from herdbeat.clock import SystemClock
from herdbeat.domain.target import CallableSpec

RULES: tuple[dict[str, object], ...] = (
    {"name": "surge", "when": "response.queue_depth > 990", "until": "response.queue_depth < 50", "every": "30s"},
    {"name": "errors", "when": "response.errors / response.total > 0.05 && run.ok", "every": "1m"},
    {"name": "flaky", "when": "runs.filter(r, !r.ok).size() >= 3", "run_in": "10m"},
)
"""Three as people write them: a threshold with a band, a share, and one that reads the last twenty runs."""

_numbers = count()


async def queue_depth() -> dict[str, int]:
    """Return what an endpoint might answer. One answer in a hundred is a surge."""
    return {"queue_depth": next(_numbers) * 7 % 1_000, "errors": 3, "total": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatCost:
    beats: int
    cpu_seconds: float


async def measure_rules(folder: Path, beats: int, *, has_rules: bool) -> BeatCost:
    """Measure the processor time of this process from the start of the node to the last result."""
    monitor = RunMonitor()
    with open_store(folder) as store:
        now = SystemClock().now()
        spec = CallableSpec(call="bench.load.rules:queue_depth")
        batch = ScheduleBatch(
            name="due",
            count=beats,
            first_at=now,
            every=timedelta(minutes=5),
            spec=spec,
            adapt=RULES if has_rules else (),
        )
        insert_schedules(store, batch, now)
        async with running_node(store, monitor):
            start = process_time()
            await monitor.wait_finished(beats)
            seconds = process_time() - start
    assert not monitor.failed, monitor.failed[0]
    return BeatCost(beats=beats, cpu_seconds=seconds)
