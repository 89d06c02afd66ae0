"""A node in this process with real runners: real children, real time, and every event in a queue."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.domain.fleet import Fleet, Server
from herdbeat.domain.policies import Catchup, Overlap, Policies
from herdbeat.domain.schedule import DEFAULT_NAME, Schedule
from herdbeat.domain.target import Target, TargetSpec
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import SchedulerShutdownError
from herdbeat.events import Event
from herdbeat.runners.kinds import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.arrange import arrange
from herdbeat.scheduler.life import Identity
from herdbeat.scheduler.loop import Loop, Settings
from herdbeat.scheduler.node import NodeParts, ServingNode
from herdbeat.scheduler.perform import Performer
from herdbeat.scheduler.timer import SystemTimer
from herdbeat.store.reader import SqliteReader
from herdbeat.store.shelf import LedgerShelf
from herdbeat.store.sqlite import SqliteStore
from herdbeat.triggers.cron import Cron

UTC_ZONE = ZoneInfo("UTC")
EVERY_SECOND = "* * * * * *"
IDENTITY = Identity(host="here", pid=os.getpid(), version="test")
LONGEST = 30.0


@dataclass(slots=True)
class AtWork:
    """What a test sees of the node."""

    node: ServingNode
    store: SqliteStore
    reader: SqliteReader
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    seen: list[Event] = field(default_factory=list)

    @property
    def loop(self) -> Loop:
        assert self.node.loop is not None
        return self.node.loop

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event of that kind. TimeoutError if none comes."""
        async with asyncio.timeout(LONGEST):
            while True:
                event = await self.events.get()
                self.seen.append(event)
                if wanted(event):
                    return event


@asynccontextmanager
async def at_work(
    folder: Path, spec: TargetSpec, *, overlap: Overlap, trigger: Trigger | None = None, kill_after: float = 0.3
) -> AsyncIterator[AtWork]:
    """One schedule, `job`, every second unless told otherwise; cut off at the end."""
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    timer = SystemTimer()
    store.write_now(lambda tx: arrange(tx, _fleet(spec, overlap, trigger), timer.now()))
    reader = SqliteReader(store.path)
    settings = RunnerSettings(
        state_dir=folder, environ={"PATH": os.environ["PATH"]}, kill_after=timedelta(seconds=kill_after)
    )
    try:
        async with open_runners(settings, timer) as runners:
            perform = Performer(LedgerShelf(reader), runners, timer)
            parts = NodeParts(store, timer, perform, prepare=perform.prepare, ended=runners.ended)
            there = AtWork(ServingNode(parts, Settings(node_id=0), IDENTITY), store, reader)
            parts.listener = there.events.put_nowait
            serving = asyncio.ensure_future(there.node.serve())
            try:
                yield there
            finally:
                there.node.cut_off()
                with suppress(SchedulerShutdownError):
                    await serving
    finally:
        reader.close()
        store.close()


def _fleet(spec: TargetSpec, overlap: Overlap, trigger: Trigger | None) -> Fleet:
    policies = Policies(zone=UTC_ZONE, timeout=timedelta(hours=1), catchup=Catchup.SKIP, overlap=overlap)
    schedule = Schedule(
        target="job", name=DEFAULT_NAME, trigger=trigger or Cron.parse(EVERY_SECOND, UTC_ZONE), policies=policies
    )
    return Fleet(
        name="faults",
        zone=UTC_ZONE,
        targets=(Target(name="job", spec=spec),),
        schedules=(schedule,),
        store="",
        server=Server(),
    )
