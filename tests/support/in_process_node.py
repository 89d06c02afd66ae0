"""A node in this process with real runners: real children, real time, and every event in a queue."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Catchup, Overlap, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import Target, TargetSpec
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import SchedulerShutdownError
from herdbeat.events import Event
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.execute import RunExecutor
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings
from herdbeat.scheduler.membership import NodeInfo
from herdbeat.scheduler.node import Node
from herdbeat.scheduler.timers import SystemTimer
from herdbeat.store.reader import SqliteReader
from herdbeat.store.spec_cache import SpecCache
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.triggers.cron import Cron

UTC_ZONE = ZoneInfo("UTC")
EVERY_SECOND = "* * * * * *"
IDENTITY = NodeInfo(host="here", pid=os.getpid(), version="test")
EVENT_TIMEOUT_S = 30.0


@dataclass(slots=True)
class InProcessNode:
    """The node as a test sees it."""

    node: Node
    store: SqliteStore
    reader: SqliteReader
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    seen: list[Event] = field(default_factory=list)

    @property
    def loop(self) -> Loop:
        assert self.node.loop is not None
        return self.node.loop

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the next event of that kind. Raises TimeoutError if none comes."""
        async with asyncio.timeout(EVENT_TIMEOUT_S):
            while True:
                event = await self.events.get()
                self.seen.append(event)
                if wanted(event):
                    return event


@asynccontextmanager
async def open_in_process_node(
    folder: Path, spec: TargetSpec, *, overlap: Overlap, trigger: Trigger | None = None, kill_after: float = 0.3
) -> AsyncIterator[InProcessNode]:
    """Run a node with one schedule, `job`, by default every second; it is cancelled at the end."""
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    timer = SystemTimer()
    store.write_now(lambda tx: apply_fleet(tx, _make_fleet(spec, overlap, trigger), timer.now()))
    reader = SqliteReader(store.path)
    settings = RunnerSettings(
        state_dir=folder, environ={"PATH": os.environ["PATH"]}, kill_after=timedelta(seconds=kill_after)
    )
    try:
        async with open_runners(settings, timer) as runners:
            perform = RunExecutor(SpecCache(reader), runners, timer)
            parts = NodeParts(store, timer, perform, prefetch=perform.prefetch, wait_stopped=runners.wait_stopped)
            there = InProcessNode(Node(parts, NodeSettings(node_id=0), IDENTITY), store, reader)
            parts.listener = there.events.put_nowait
            serving = asyncio.ensure_future(there.node.serve())
            try:
                yield there
            finally:
                there.node.hard_stop()
                with suppress(SchedulerShutdownError):
                    await serving
    finally:
        reader.close()
        store.close()


def _make_fleet(spec: TargetSpec, overlap: Overlap, trigger: Trigger | None) -> Fleet:
    policies = Policies(zone=UTC_ZONE, timeout=timedelta(hours=1), catchup=Catchup.SKIP, overlap=overlap)
    schedule = Schedule(
        target="job",
        name=DEFAULT_SCHEDULE_NAME,
        trigger=trigger or Cron.parse(EVERY_SECOND, UTC_ZONE),
        policies=policies,
    )
    return Fleet(
        name="faults",
        zone=UTC_ZONE,
        targets=(Target(name="job", spec=spec),),
        schedules=(schedule,),
        store="",
        server=ServerSettings(),
    )
