"""What a node costs that has nothing to do: its start, its share of a core, its memory."""

import asyncio
import resource
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import perf_counter, process_time

from bench.load.engine import at_work, open_store
from herdbeat.clock import SystemClock
from herdbeat.events import Event, NodeReady


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Seconds from `began_at` until ready, the share of one core while idle, and the most memory ever held."""

    ready_after: float
    core: float
    mebibytes: float


async def idle(folder: Path, seconds: float, began_at: datetime) -> Idle:
    """On the store in that folder. `began_at` is when the process was started, as whoever started it knows."""
    is_ready = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, NodeReady):
            is_ready.set()

    with open_store(folder) as store:
        async with at_work(store, listen):
            await is_ready.wait()
            ready_after = (SystemClock().now() - began_at).total_seconds()
            start, used = perf_counter(), process_time()
            await asyncio.sleep(seconds)
            core = (process_time() - used) / (perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Idle(ready_after=ready_after, core=core, mebibytes=peak)
