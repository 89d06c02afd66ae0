"""Lateness of starts at a steady rate, beside idle schedules in the store."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from bench.load.bulk_insert import ScheduleBatch, insert_schedules
from bench.load.run_monitor import Percentiles, RunMonitor
from bench.load.running_node import open_store, running_node
from herdbeat.clock import SystemClock
from herdbeat.store.location import StoreHandle
from herdbeat.store.sqlite.store import SqliteStore

TICK_INTERVAL = timedelta(seconds=1)
"""The interval of each schedule: a rate of 100 beats per second is 100 schedules with evenly spread first instants."""

FAR_FUTURE = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`rate` beats per second for `seconds`, beside `stored` schedules that are not due. The warm-up does not count."""

    rate: int
    seconds: float
    warm_up: float = 1.0
    stored: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The same load without and with another load beside it."""

    alone: Percentiles
    burdened: Percentiles


async def measure_fresh_store(folder: Path, load: Load) -> Percentiles:
    """Measure in a new store. Idle schedules are due in a year; the others are intervals, decided at each finish."""
    with open_store(folder) as store:
        insert_far_schedules(store, load.stored)
        return await measure_lateness(store, load)


def insert_far_schedules(store: StoreHandle, count: int) -> None:
    now = SystemClock().now()
    insert_schedules(
        store,
        ScheduleBatch(name="stored", count=count, first_at=now + FAR_FUTURE, every=FAR_FUTURE, spread=FAR_FUTURE),
        now,
    )


async def measure_lateness(store: SqliteStore, load: Load) -> Percentiles:
    """Measure the lateness of `tick-…` schedules, and ignore all others in the store."""
    since = insert_ticks(store, load.rate) + timedelta(seconds=load.warm_up)
    monitor = RunMonitor("tick-", since)
    async with running_node(store, monitor):
        await asyncio.sleep((since - SystemClock().now()).total_seconds() + load.seconds)
    assert not monitor.failed, monitor.failed[0]
    return monitor.lateness


def insert_ticks(store: SqliteStore, rate: int) -> datetime:
    """Insert schedules that together beat at that rate, and return their first instant: once the node has started."""
    start = SystemClock().now() + timedelta(seconds=0.2)
    insert_schedules(
        store, ScheduleBatch(name="tick", count=rate, first_at=start, every=TICK_INTERVAL, spread=TICK_INTERVAL), start
    )
    return start
