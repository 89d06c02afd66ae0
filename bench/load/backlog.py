"""Does one target's backlog delay another? The same load alone, and beside many beats that wait for a full target."""

import asyncio
from datetime import timedelta
from pathlib import Path

from bench.load.engine import at_work, open_store
from bench.load.lateness import Compared, Load, measured, put_far
from bench.load.stock import Lot, put
from herdbeat.clock import SystemClock
from herdbeat.domain.beat import BeatOutcome
from herdbeat.events import BeatSettled, Event
from herdbeat.store.sqlite.store import SqliteStore

_PUT_RATE = 20_000
"""Schedules that are surely put into a store within a second."""


async def backlog(folder: Path, load: Load, waiting: int) -> Compared:
    """In two stores, so that the first measurement leaves nothing to the second."""
    with open_store(folder / "alone") as store:
        put_far(store, load.stored)
        alone = await measured(store, load)
    with open_store(folder / "burdened") as store:
        put_far(store, load.stored)
        await _let_wait(store, waiting)
        return Compared(alone=alone, burdened=await measured(store, load))


async def arrival(folder: Path, load: Load, herd: int) -> Compared:
    """The moment itself: so many schedules of one full target fall due at once, while the others beat on."""
    with open_store(folder / "alone") as store:
        put_far(store, load.stored)
        alone = await measured(store, load)
    with open_store(folder / "burdened") as store:
        put_far(store, load.stored)
        now = SystemClock().now()
        first_at = now + timedelta(seconds=herd / _PUT_RATE + load.warm_up + 1)
        put(store, Lot(name="full", count=herd, first_at=first_at, every=timedelta(hours=1), shared_room=0), now)
        return Compared(alone=alone, burdened=await measured(store, load))


async def _let_wait(store: SqliteStore, waiting: int) -> None:
    """One target without any room, and so many schedules of it that are due: return when all of them wait."""
    now = SystemClock().now()
    put(store, Lot(name="full", count=waiting, first_at=now, every=timedelta(hours=1), shared_room=0), now)
    parked = _Parked(waiting)
    async with at_work(store, parked):
        await parked.all.wait()


class _Parked:
    """Listens until so many beats wait."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self.all = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, BeatSettled) and event.outcome is BeatOutcome.PENDING:
            self._left -= 1
        if self._left == 0:
            self.all.set()
