"""A node that is full, or waits for its store, has not slept: no instant may be `missed` because of it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.events import Event, GapDetected
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings
from herdbeat.scheduler.timers import ClockReading
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY, open_herd

SECOND = timedelta(seconds=1)
T = TypeVar("T")


async def test_a_node_that_was_full_for_long_has_not_slept(tmp_path: Path) -> None:
    """With `--max-concurrent 1`, every instant during a long run was `missed: slept`."""
    events: list[Event] = []
    finish = asyncio.Event()

    async def execute_run(claim: Claim) -> FinishedRun:
        await finish.wait()
        return FinishedRun(claim.run_id, MONDAY, Outcome(status=RunStatus.SUCCEEDED))

    async with open_herd(tmp_path) as herd:
        herd.schedule("long", every="1h")
        herd.next_run("long")  # writes it down
        parts = NodeParts(herd.store, herd.clock, execute_run, listener=events.append)
        loop = Loop(parts, NodeSettings(node_id=1, max_concurrent=1))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(30):
                await loop.run_cycle(tasks)
                herd.clock.advance(SECOND)
            finish.set()
        await loop.run_cycle(tasks)

    assert not [event for event in events if isinstance(event, GapDetected)]


class SlowStore:
    """A store whose lock another program holds until it is released."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.released = asyncio.Event()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        await self.released.wait()
        return await self._store.write(work)


class ReadingClock(FakeClock):
    """A second passes from one reading to the next; after the thirtieth the store is released."""

    readings = 0
    store: SlowStore | None = None

    def pulse(self) -> ClockReading:
        self.readings += 1
        self.advance(SECOND)
        if self.store is not None and self.readings > 30:
            self.store.released.set()
        return super().pulse()


async def test_a_node_that_waited_for_a_locked_ledger_has_not_slept(tmp_path: Path) -> None:
    """With `lease: 2s`, instants that waited for the write lock were `missed: slept`."""
    events: list[Event] = []

    async def execute_run(claim: Claim) -> FinishedRun:
        raise AssertionError(f"{claim} is not due")

    async with open_herd(tmp_path) as herd:
        clock, store = ReadingClock(MONDAY), SlowStore(herd.store)
        clock.store = store
        settings = NodeSettings(node_id=1, lease=3 * SECOND, check_interval=timedelta(milliseconds=1))
        loop = Loop(NodeParts(store, clock, execute_run, listener=events.append), settings)
        async with asyncio.TaskGroup() as tasks:
            await loop.run_cycle(tasks)
            await loop.run_cycle(tasks)

    assert clock.readings > 30
    assert not [event for event in events if isinstance(event, GapDetected)]
