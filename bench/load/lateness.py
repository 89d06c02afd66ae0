"""How late a run begins: at a steady rate, beside so many schedules that only lie there."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from bench.load.engine import at_work, open_store
from bench.load.stock import Lot, put
from bench.load.watch import Percentiles, Watch
from herdbeat.clock import SystemClock
from herdbeat.store.location import StoreHandle
from herdbeat.store.sqlite.store import SqliteStore

EVERY = timedelta(seconds=1)
"""The pace of each schedule: a rate of 100 beats a second is 100 schedules whose first instants lie evenly."""

FAR = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """So many beats a second, for so long, beside so many schedules that are not due. Warming up does not count."""

    rate: int
    seconds: float
    warm_up: float = 1.0
    stored: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The same load without and with a burden beside it."""

    alone: Percentiles
    burdened: Percentiles


async def lateness(folder: Path, load: Load) -> Percentiles:
    """Stored schedules are a year away. Those that run are intervals: each finish decides the next instant."""
    with open_store(folder) as store:
        put_far(store, load.stored)
        return await measured(store, load)


def put_far(store: StoreHandle, count: int) -> None:
    now = SystemClock().now()
    put(store, Lot(name="stored", count=count, first_at=now + FAR, every=FAR, spread=FAR), now)


async def measured(store: SqliteStore, load: Load) -> Percentiles:
    """The lateness of `tick-…`, whatever else the store holds."""
    since = put_ticks(store, load.rate) + timedelta(seconds=load.warm_up)
    watch = Watch("tick-", since)
    async with at_work(store, watch):
        await asyncio.sleep((since - SystemClock().now()).total_seconds() + load.seconds)
    assert not watch.failed, watch.failed[0]
    return watch.lateness


def put_ticks(store: SqliteStore, rate: int) -> datetime:
    """Schedules that beat at that rate together, from the returned moment on: soon, when the node is there."""
    start = SystemClock().now() + timedelta(seconds=0.2)
    put(store, Lot(name="tick", count=rate, first_at=start, every=EVERY, spread=EVERY), start)
    return start
