"""The engine under measurement: the parts of `herdbeat up`, on a store that the measurement has filled."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

from herdbeat import __version__
from herdbeat.collector import look_less_often
from herdbeat.events import Listener
from herdbeat.runners.kinds import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.life import Identity
from herdbeat.scheduler.loop import Settings
from herdbeat.scheduler.node import NodeParts, ServingNode
from herdbeat.scheduler.perform import Performer
from herdbeat.scheduler.timer import SystemTimer
from herdbeat.store.reader import SqliteReader
from herdbeat.store.shelf import LedgerShelf
from herdbeat.store.sqlite import SqliteStore

ROOM = 1_000
"""Runs at once on the node. The default of 100 is for agents; a measurement of many short runs asks for more."""

PATIENCE = timedelta(seconds=30)


@contextmanager
def open_store(folder: Path) -> Iterator[SqliteStore]:
    """A store in that folder, as durable as any: synchronous=FULL."""
    store = SqliteStore(folder / "herdbeat.db")
    store.open()
    try:
        yield store
    finally:
        store.close()


@asynccontextmanager
async def at_work(store: SqliteStore, listener: Listener, max_concurrent: int = ROOM) -> AsyncIterator[ServingNode]:
    """A node that serves the store until the block is left."""
    clock = SystemTimer()
    settings = RunnerSettings(state_dir=store.path.parent, environ=os.environ, max_concurrent=max_concurrent)
    reader = SqliteReader(store.path)
    try:
        look_less_often()  # as in the process of `herdbeat up`
        async with open_runners(settings, clock) as runners, asyncio.TaskGroup() as tasks:
            perform = Performer(LedgerShelf(reader), runners, clock)
            identity = Identity(host=platform.node(), pid=os.getpid(), version=__version__)
            node = ServingNode(
                NodeParts(store, clock, perform, listener=listener, prepare=perform.prepare),
                Settings(node_id=0, max_concurrent=max_concurrent),
                identity,
            )
            tasks.create_task(node.serve(), name="node")
            try:
                yield node
            finally:
                node.stop(PATIENCE)
    finally:
        reader.close()
