"""The node under measurement: the parts of `herdbeat up`, on a store that the measurement has filled."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

from herdbeat import __version__
from herdbeat.events import EventListener
from herdbeat.platform import tune_interpreter
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.execute import RunExecutor
from herdbeat.scheduler.loop import NodeParts, NodeSettings
from herdbeat.scheduler.membership import NodeInfo
from herdbeat.scheduler.node import Node
from herdbeat.scheduler.rules import RuleEvaluator
from herdbeat.scheduler.timers import SystemTimer
from herdbeat.store.reader import SqliteReader
from herdbeat.store.spec_cache import SpecCache
from herdbeat.store.sqlite.store import SqliteStore

MAX_CONCURRENT_RUNS = 1_000
"""Concurrent runs on the node. The default of 100 is meant for agents; measurements with many short runs need more."""

STOP_TIMEOUT = timedelta(seconds=30)


@contextmanager
def open_store(folder: Path) -> Iterator[SqliteStore]:
    """Open a store in that folder with the usual durability: synchronous=FULL."""
    store = SqliteStore(folder / "herdbeat.db")
    store.open()
    try:
        yield store
    finally:
        store.close()


@asynccontextmanager
async def running_node(
    store: SqliteStore, listener: EventListener, max_concurrent: int = MAX_CONCURRENT_RUNS
) -> AsyncIterator[Node]:
    """Run a node on the store until the block exits."""
    clock = SystemTimer()
    settings = RunnerSettings(
        state_dir=store.path.parent, environ=os.environ, max_concurrent=max_concurrent, egress_allow=("127.0.0.1",)
    )
    reader = SqliteReader(store.path)
    try:
        tune_interpreter()  # as in the process of `herdbeat up`
        async with open_runners(settings, clock) as runners, asyncio.TaskGroup() as tasks:
            perform = RunExecutor(SpecCache(reader), runners, clock)
            identity = NodeInfo(host=platform.node(), pid=os.getpid(), version=__version__)
            node = Node(
                NodeParts(
                    store,
                    clock,
                    perform,
                    listener=listener,
                    prefetch=perform.prefetch,
                    evaluate_rules=RuleEvaluator(reader, clock),
                ),
                NodeSettings(node_id=0, max_concurrent=max_concurrent),
                identity,
            )
            tasks.create_task(node.serve(), name="node")
            try:
                yield node
            finally:
                node.stop(STOP_TIMEOUT)
    finally:
        reader.close()
