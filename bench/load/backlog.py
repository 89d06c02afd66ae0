"""Isolation: the same load alone, and beside many beats that wait for another, full target."""

import asyncio
from datetime import timedelta
from pathlib import Path

from bench.load.bulk_insert import ScheduleBatch, insert_schedules
from bench.load.lateness import Comparison, Load, insert_far_schedules, measure_lateness
from bench.load.running_node import open_store, running_node
from herdbeat.clock import SystemClock
from herdbeat.domain.beat import BeatOutcome
from herdbeat.events import BeatSettled, Event
from herdbeat.store.sqlite.store import SqliteStore

_INSERT_RATE = 20_000
"""A lower bound of how many schedules are inserted within a second."""


async def measure_backlog(folder: Path, load: Load, waiting: int) -> Comparison:
    """Measure without and with the backlog, in two stores, so that the first measurement cannot affect the second."""
    with open_store(folder / "alone") as store:
        insert_far_schedules(store, load.stored)
        alone = await measure_lateness(store, load)
    with open_store(folder / "burdened") as store:
        insert_far_schedules(store, load.stored)
        await _fill_backlog(store, waiting)
        return Comparison(alone=alone, burdened=await measure_lateness(store, load))


async def measure_arrival(folder: Path, load: Load, herd: int) -> Comparison:
    """Measure while that many schedules of one full target fall due at once."""
    with open_store(folder / "alone") as store:
        insert_far_schedules(store, load.stored)
        alone = await measure_lateness(store, load)
    with open_store(folder / "burdened") as store:
        insert_far_schedules(store, load.stored)
        now = SystemClock().now()
        first_at = now + timedelta(seconds=herd / _INSERT_RATE + load.warm_up + 1)
        insert_schedules(
            store,
            ScheduleBatch(name="full", count=herd, first_at=first_at, every=timedelta(hours=1), shared_capacity=0),
            now,
        )
        return Comparison(alone=alone, burdened=await measure_lateness(store, load))


async def _fill_backlog(store: SqliteStore, waiting: int) -> None:
    """Insert that many due schedules of one target without capacity, and return when all of their beats are pending."""
    now = SystemClock().now()
    insert_schedules(
        store, ScheduleBatch(name="full", count=waiting, first_at=now, every=timedelta(hours=1), shared_capacity=0), now
    )
    pending = _PendingCounter(waiting)
    async with running_node(store, pending):
        await pending.all_pending.wait()


class _PendingCounter:
    """Event listener that sets `all_pending` after that many beats are pending."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self.all_pending = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, BeatSettled) and event.outcome is BeatOutcome.PENDING:
            self._left -= 1
        if self._left == 0:
            self.all_pending.set()
