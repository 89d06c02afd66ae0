"""Throughput of HTTP endpoints: one request for each beat, counted by the server that answers."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter, process_time

from bench.load.bulk_insert import ScheduleBatch, insert_schedules
from bench.load.run_monitor import RunMonitor
from bench.load.running_node import open_store, running_node
from herdbeat.domain.target import EndpointSpec
from herdbeat.scheduler.timers import SystemTimer

WARM_UP = timedelta(seconds=5)
"""One endpoint runs before: the first request of a node loads the HTTP library, which takes a quarter of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRate:
    """`answered` is what the server has counted. The processor time is that of the node alone."""

    beats: int
    answered: int
    seconds: float
    cpu_seconds: float


@contextmanager
def endpoint_server() -> Iterator[subprocess.Popen[str]]:
    """Run the server in its own process, until the block exits."""
    command = [sys.executable, "-m", "bench.load.endpoint_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def measure_endpoints(folder: Path, beats: int) -> EndpointRate:
    """Measure from the moment at which all endpoints are due until the last answer is durable."""
    monitor, timer = RunMonitor(), SystemTimer()
    with endpoint_server() as server, open_store(folder) as store:
        assert server.stdout is not None
        spec = EndpointSpec(url=f"http://127.0.0.1:{server.stdout.readline().strip()}/")
        now = timer.now()
        due_at = now + WARM_UP
        for name, count, first_at in (("first", 1, now), ("due", beats, due_at)):
            batch = ScheduleBatch(name=name, count=count, first_at=first_at, every=timedelta(minutes=5), spec=spec)
            insert_schedules(store, batch, now)
        async with running_node(store, monitor):
            await monitor.wait_finished(1)
            await timer.sleep_until(due_at, asyncio.Event())
            start, used = perf_counter(), process_time()
            await monitor.wait_finished(beats + 1)
            seconds, cpu_seconds = perf_counter() - start, process_time() - used
        answered, _ = server.communicate("")
    assert not monitor.failed, monitor.failed[0]
    return EndpointRate(beats=beats, answered=int(answered) - 1, seconds=seconds, cpu_seconds=cpu_seconds)
