"""A fleet at work on this machine: the store, the runners and the scheduler, put together and taken apart again.

Beside `app`, which is read by every command: who only asks when something is due must not load an engine.
"""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from herdbeat import __version__
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import RunStatus
from herdbeat.events import Listener, nobody
from herdbeat.runners.kinds import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.arrange import Arranged, arrange
from herdbeat.scheduler.life import Identity
from herdbeat.scheduler.loop import Settings
from herdbeat.scheduler.node import NodeParts, ServingNode
from herdbeat.scheduler.perform import Performer
from herdbeat.scheduler.timer import SystemTimer, Timer
from herdbeat.service.upkeep import Upkeep
from herdbeat.store.audit import SqliteAudit
from herdbeat.store.lock import StateLock
from herdbeat.store.places import ledger_path
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.shelf import SqliteShelf
from herdbeat.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Told once, when the fleet is at work."""

    node: ServingNode
    store: SqliteStore
    arranged: Arranged
    state_dir: Path


async def serve(
    fleet: Fleet,
    *,
    environ: Mapping[str, str],
    on_ready: Callable[[Ready], None],
    listener: Listener = nobody,
    timer: Timer | None = None,
    max_concurrent: int = 100,
) -> None:
    """Run the fleet until its node is told to stop. Raises Conflict if another process does so already."""
    clock = timer or SystemTimer()
    path = ledger_path(fleet)
    with StateLock(path.parent):
        store = SqliteStore(path)
        store.open()
        try:
            arranged = await store.write(lambda tx: arrange(tx, fleet, clock.now()))
            # One node is the whole fleet here, so the fleet's limit is one of the node's too.
            most = min(max_concurrent, fleet.max_concurrent or max_concurrent)
            await _serve(fleet, store, clock, environ, listener, on_ready, arranged, most)
        finally:
            store.close()


async def _serve(
    fleet: Fleet,
    store: SqliteStore,
    clock: Timer,
    environ: Mapping[str, str],
    listener: Listener,
    on_ready: Callable[[Ready], None],
    arranged: Arranged,
    max_concurrent: int,
) -> None:
    state_dir = store.path.parent
    runner_settings = RunnerSettings(
        state_dir=state_dir, environ=environ, max_concurrent=max_concurrent, module_folders=(Path(fleet.home),)
    )
    reader = SqliteReader(store.path)
    try:
        async with open_runners(runner_settings, clock) as runners:
            await runners.end_leftovers(_open_runs(reader))
            perform = Performer(SqliteShelf(reader), runners, clock)
            upkeep = Upkeep(store, SqliteAudit(store.path), clock, fleet.retention, listener=listener)
            parts = NodeParts(store, clock, perform, listener=listener, prepare=perform.prepare, upkeep=upkeep.run)
            settings = Settings(
                node_id=0,
                max_concurrent=max_concurrent,
                check_interval=fleet.check_interval,
                catchup_rate=fleet.catchup_rate,
                lease=fleet.lease,
            )
            identity = Identity(host=platform.node(), pid=os.getpid(), version=__version__)
            node = ServingNode(parts, settings, identity)
            on_ready(Ready(node=node, store=store, arranged=arranged, state_dir=state_dir))
            await node.serve()
    finally:
        reader.close()


def _open_runs(reader: SqliteReader) -> frozenset[int]:
    """Runs that nobody has closed: what a killed node has left of them must not live on beside their successors."""
    return frozenset(run.id for run in reader.runs(Filter(status=RunStatus.RUNNING, limit=100_000)))
