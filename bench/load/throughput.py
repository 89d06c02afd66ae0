"""How many beats a second, from claim to durable result, when everything is due at once."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter

from bench.load.engine import ROOM, at_work, open_store
from bench.load.stock import Lot, put
from bench.load.watch import Watch
from herdbeat.clock import SystemClock

BEATS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    beats: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.beats / self.seconds


async def throughput(folder: Path, beats: int = BEATS, max_concurrent: int = ROOM) -> Throughput:
    """Counted from the start of the node, its joining included, until the last result is durable."""
    watch = Watch()
    with open_store(folder) as store:
        now = SystemClock().now()
        put(store, Lot(name="due", count=beats, first_at=now, every=timedelta(minutes=5)), now)
        async with at_work(store, watch, max_concurrent):
            start = perf_counter()
            await watch.until(beats)
            seconds = perf_counter() - start
    assert not watch.failed, watch.failed[0]
    return Throughput(beats=beats, seconds=seconds)
