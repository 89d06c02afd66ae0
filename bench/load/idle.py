"""Cost of an idle node: start time, share of a core, memory."""

import asyncio
import resource
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import perf_counter, process_time

from bench.load.running_node import open_store, running_node
from herdbeat.clock import SystemClock
from herdbeat.events import Event, NodeReady


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Seconds from `began_at` until ready, the share of one core while idle, and the peak memory."""

    ready_after: float
    core: float
    mebibytes: float


async def measure_idle(folder: Path, seconds: float, began_at: datetime) -> Idle:
    """Measure on the store in that folder. `began_at` is when the parent started this process."""
    is_ready = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, NodeReady):
            is_ready.set()

    with open_store(folder) as store:
        async with running_node(store, listen):
            await is_ready.wait()
            ready_after = (SystemClock().now() - began_at).total_seconds()
            start, used = perf_counter(), process_time()
            await asyncio.sleep(seconds)
            core = (process_time() - used) / (perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Idle(ready_after=ready_after, core=core, mebibytes=peak)
