"""A node that is full, or waits for its store, has not slept: no instant may be `missed` because of it."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.events import Event, GapDetected
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings
from herdbeat.store.base import FinishedRun
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
