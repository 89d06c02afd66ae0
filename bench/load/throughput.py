"""Throughput from claim to durable result when everything is due at once."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter

from bench.load.bulk_insert import ScheduleBatch, insert_schedules
from bench.load.run_monitor import RunMonitor
from bench.load.running_node import MAX_CONCURRENT_RUNS, open_store, running_node
from herdbeat.clock import SystemClock

BEATS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    beats: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.beats / self.seconds


async def measure_throughput(folder: Path, beats: int = BEATS, max_concurrent: int = MAX_CONCURRENT_RUNS) -> Throughput:
    """Measure from the start of the node, including its registration, until the last result is durable."""
    monitor = RunMonitor()
    with open_store(folder) as store:
        now = SystemClock().now()
        insert_schedules(store, ScheduleBatch(name="due", count=beats, first_at=now, every=timedelta(minutes=5)), now)
        async with running_node(store, monitor, max_concurrent):
            start = perf_counter()
            await monitor.wait_finished(beats)
            seconds = perf_counter() - start
    assert not monitor.failed, monitor.failed[0]
    return Throughput(beats=beats, seconds=seconds)
