"""A fleet at work on this machine: the store, the runners and the scheduler, put together and taken apart again.

Beside `app`, which is read by every command: who only asks when something is due must not load an engine.
"""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from herdbeat import __version__
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import RunStatus
from herdbeat.events import Listener, contained, nobody
from herdbeat.runners.functions import AtHand
from herdbeat.runners.kinds import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.arrange import Arranged, arrange, refuse_strangers
from herdbeat.scheduler.life import Identity
from herdbeat.scheduler.loop import Settings
from herdbeat.scheduler.node import NodeParts, ServingNode
from herdbeat.scheduler.perform import Performer, beside_the_loop
from herdbeat.scheduler.shared_timer import SharedTimer
from herdbeat.scheduler.timer import SystemTimer, Timer
from herdbeat.service.outputs import Outputs
from herdbeat.service.upkeep import Upkeep
from herdbeat.store.base import Shared
from herdbeat.store.lock import StateLock
from herdbeat.store.opening import OpenStore, audit_at, reader_at, shared_by, store_at
from herdbeat.store.places import LedgerPlace, ledger_of, state_dir_of
from herdbeat.store.reader import Filter, Reader
from herdbeat.store.shelf import LedgerShelf, SharedShelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Told once, when the fleet is at work."""

    node: ServingNode
    store: OpenStore
    arranged: Arranged
    state_dir: Path
    shelf: LedgerShelf
    clock: Timer


async def serve(
    fleet: Fleet,
    *,
    environ: Mapping[str, str],
    on_ready: Callable[[Ready], None],
    listener: Listener = nobody,
    timer: Timer | None = None,
    max_concurrent: int = 100,
    at_hand: AtHand | None = None,
    labels: Sequence[str] = (),
    applies: bool = False,
) -> None:
    """Run the fleet until its node is told to stop. Raises Conflict if another process does so already.

    A file is brought to what the fleet says at every start; a store that nodes share only if the node `applies`.
    """
    place = ledger_of(fleet)
    with StateLock(state_dir_of(place)), _opened(place, fleet) as store:
        ground = await _ground(store, timer or SystemTimer())
        arranged = await _arranged(ground, fleet, applies=applies)
        settings = _settings(fleet, ground, max_concurrent, labels)
        running = _running(fleet, ground, settings, environ, at_hand or AtHand())
        async with _node(ground, settings, running, fleet, contained(listener)) as (node, shelf):
            on_ready(
                Ready(
                    node=node,
                    store=store,
                    arranged=arranged,
                    state_dir=ground.state_dir,
                    shelf=shelf,
                    clock=ground.clock,
                )
            )
            await node.serve()


async def serve_instead(
    ready: Ready, fleet: Fleet, now: datetime, who: str = "up", *, is_whole: bool = True
) -> Arranged:
    """Give a fleet at work other targets and schedules. Runs that are going go on."""
    arranged = await ready.store.write(lambda tx: arrange(tx, fleet, now, who, is_whole=is_whole))
    ready.shelf.forget()
    ready.node.wake()
    return arranged


@contextmanager
def _opened(place: LedgerPlace, fleet: Fleet) -> Iterator[OpenStore]:
    store = store_at(place, lease=fleet.lease)
    store.open()
    try:
        yield store
    finally:
        store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What a node stands on. `shared` is what it has in common with others; None where it is alone."""

    store: OpenStore
    shared: Shared | None
    clock: Timer

    @property
    def state_dir(self) -> Path:
        return state_dir_of(self.store.place)


async def _ground(store: OpenStore, own: Timer) -> _Ground:
    shared = shared_by(store)
    if shared is None:
        return _Ground(store=store, shared=None, clock=own)
    clock = SharedTimer(own, shared.now)
    await clock.measure()
    return _Ground(store=store, shared=shared, clock=clock)


async def _arranged(ground: _Ground, fleet: Fleet, *, applies: bool) -> Arranged:
    """Nodes that share a store do not each bring their files along: that would be a quarrel. They are applied once."""
    if applies or ground.shared is None:
        return await ground.store.write(lambda tx: arrange(tx, fleet, ground.clock.now()))
    await ground.store.write(lambda tx: refuse_strangers(tx, fleet.name))
    return Arranged()


def _settings(fleet: Fleet, ground: _Ground, max_concurrent: int, labels: Sequence[str]) -> Settings:
    """One node is the whole fleet, so where it is alone the fleet's limit is the node's own, too."""
    is_alone = ground.shared is None
    return Settings(
        node_id=0,
        max_concurrent=min(max_concurrent, fleet.max_concurrent or max_concurrent) if is_alone else max_concurrent,
        check_interval=fleet.check_interval,
        catchup_rate=fleet.catchup_rate,
        lease=fleet.lease,
        labels=frozenset(labels),
        fleet_limit=None if is_alone else fleet.max_concurrent,
    )


def _running(
    fleet: Fleet, ground: _Ground, settings: Settings, environ: Mapping[str, str], at_hand: AtHand
) -> RunnerSettings:
    return RunnerSettings(
        state_dir=ground.state_dir,
        environ=environ,
        home=Path(fleet.home),
        max_concurrent=max(1, settings.max_concurrent),
        module_folders=(Path(fleet.home),),
        egress_allow=fleet.egress_allow,
        at_hand=at_hand,
    )


@asynccontextmanager
async def _node(
    ground: _Ground, settings: Settings, running: RunnerSettings, fleet: Fleet, listener: Listener
) -> AsyncIterator[tuple[ServingNode, LedgerShelf]]:
    """A node with its runners, until the block is left, and the shelf from which it takes what it runs."""
    store, clock = ground.store, ground.clock
    with closing(reader_at(store.place)) as reader:
        async with open_runners(running, clock) as runners:
            await runners.end_leftovers(_open_runs(reader))
            shelf = LedgerShelf(reader) if ground.shared is None else SharedShelf(reader)
            perform = Performer(shelf, runners, clock, runners.check)
            upkeep = Upkeep(store, audit_at(store.place), clock, fleet.retention, listener=listener)
            outputs = None if ground.shared is None else Outputs(perform, ground.shared, clock)
            parts = NodeParts(
                store=store,
                timer=clock,
                perform=perform if outputs is None else outputs.perform,
                listener=listener,
                upkeep=upkeep.run if outputs is None else partial(_side_by_side, upkeep.run, outputs.run),
                prepare=perform.prepare if ground.shared is None else beside_the_loop(perform.prepare),
                ended=runners.ended,
                shared=ground.shared,
                renewed=runners.renew,
            )
            yield ServingNode(parts, settings, _identity(settings)), shelf


async def _side_by_side(*works: Callable[[], Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for each in works:
            tasks.create_task(each(), name="upkeep")


def _identity(settings: Settings) -> Identity:
    return Identity(
        host=platform.node(),
        pid=os.getpid(),
        version=__version__,
        labels=tuple(sorted(settings.labels)),
        works=settings.max_concurrent > 0,
    )


def _open_runs(reader: Reader) -> frozenset[int]:
    """Runs that nobody has closed: what a killed node has left of them must not live on beside their successors."""
    return frozenset(run.id for run in reader.runs(Filter(status=RunStatus.RUNNING, limit=100_000)))
