"""Throughput of HTTP endpoints: one request for each beat, counted by the server that answers."""

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
from herdbeat.clock import SystemClock
from herdbeat.domain.target import EndpointSpec


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
    """Measure from the start of the node until the last answer is durable. All endpoints are due at once."""
    monitor = RunMonitor()
    with endpoint_server() as server, open_store(folder) as store:
        assert server.stdout is not None
        spec = EndpointSpec(url=f"http://127.0.0.1:{server.stdout.readline().strip()}/")
        now = SystemClock().now()
        batch = ScheduleBatch(name="due", count=beats, first_at=now, every=timedelta(minutes=5), spec=spec)
        insert_schedules(store, batch, now)
        async with running_node(store, monitor):
            start, used = perf_counter(), process_time()
            await monitor.wait_finished(beats)
            seconds, cpu_seconds = perf_counter() - start, process_time() - used
        answered, _ = server.communicate("")
    assert not monitor.failed, monitor.failed[0]
    return EndpointRate(beats=beats, answered=int(answered), seconds=seconds, cpu_seconds=cpu_seconds)
