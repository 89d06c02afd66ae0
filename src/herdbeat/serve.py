"""A fleet at work on this machine: the store, the runners and the scheduler, put together and taken apart again.

Beside `app`, which is read by every command: who only asks when something is due must not load an engine.
"""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
from herdbeat.service.outputs import with_output
from herdbeat.service.upkeep import Upkeep
from herdbeat.store.base import Shared
from herdbeat.store.lock import StateLock
from herdbeat.store.opening import OpenStore, audit_at, reader_at, shared_by, store_at
from herdbeat.store.places import ledger_of, state_dir_of
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
    with StateLock(state_dir_of(place)):
        store = store_at(place, lease=fleet.lease)
        store.open()
        try:
            shared = shared_by(store)
            own = timer or SystemTimer()
            clock = own if shared is None else SharedTimer(own, shared.now)
            if isinstance(clock, SharedTimer):
                await clock.measure()
            arranged = await _arranged(store, fleet, clock, applies=applies or shared is None)
            settings = Settings(
                node_id=0,
                max_concurrent=max_concurrent if shared is not None else _most_alone(fleet, max_concurrent),
                check_interval=fleet.check_interval,
                catchup_rate=fleet.catchup_rate,
                lease=fleet.lease,
                labels=frozenset(labels),
                fleet_limit=fleet.max_concurrent if shared is not None else None,
            )
            at_hand = at_hand or AtHand()
            await _serve(
                fleet, store, shared, clock, environ, contained(listener), on_ready, arranged, settings, at_hand
            )
        finally:
            store.close()


async def _arranged(store: OpenStore, fleet: Fleet, clock: Timer, *, applies: bool) -> Arranged:
    """Nodes that share a store do not each bring their files along: that would be a quarrel. They are applied once."""
    if applies:
        return await store.write(lambda tx: arrange(tx, fleet, clock.now()))
    await store.write(lambda tx: refuse_strangers(tx, fleet.name))
    return Arranged()


def _most_alone(fleet: Fleet, max_concurrent: int) -> int:
    """One node is the whole fleet, so the fleet's limit is one of the node's too."""
    return min(max_concurrent, fleet.max_concurrent or max_concurrent)


async def serve_instead(
    ready: Ready, fleet: Fleet, now: datetime, who: str = "up", *, is_whole: bool = True
) -> Arranged:
    """Give a fleet at work other targets and schedules. Runs that are going go on."""
    arranged = await ready.store.write(lambda tx: arrange(tx, fleet, now, who, is_whole=is_whole))
    ready.shelf.forget()
    ready.node.wake()
    return arranged


async def _serve(
    fleet: Fleet,
    store: OpenStore,
    shared: Shared | None,
    clock: Timer,
    environ: Mapping[str, str],
    listener: Listener,
    on_ready: Callable[[Ready], None],
    arranged: Arranged,
    settings: Settings,
    at_hand: AtHand,
) -> None:
    state_dir = state_dir_of(store.place)
    runner_settings = RunnerSettings(
        state_dir=state_dir,
        environ=environ,
        max_concurrent=max(1, settings.max_concurrent),
        module_folders=(Path(fleet.home),),
        egress_allow=fleet.egress_allow,
        at_hand=at_hand,
    )
    reader = reader_at(store.place)
    try:
        async with open_runners(runner_settings, clock) as runners:
            await runners.end_leftovers(_open_runs(reader))
            shelf = LedgerShelf(reader) if shared is None else SharedShelf(reader)
            perform = Performer(shelf, runners, clock, runners.check)
            upkeep = Upkeep(store, audit_at(store.place), clock, fleet.retention, listener=listener)
            prepare = perform.prepare if shared is None else beside_the_loop(perform.prepare)
            performed = perform if shared is None else with_output(perform, state_dir, clock)
            parts = NodeParts(
                store, clock, performed, listener, upkeep.run, prepare, runners.ended, shared, runners.renew
            )
            labels = tuple(sorted(settings.labels))
            identity = Identity(
                host=platform.node(),
                pid=os.getpid(),
                version=__version__,
                labels=labels,
                works=settings.max_concurrent > 0,
            )
            node = ServingNode(parts, settings, identity)
            on_ready(Ready(node=node, store=store, arranged=arranged, state_dir=state_dir, shelf=shelf, clock=clock))
            await node.serve()
    finally:
        reader.close()


def _open_runs(reader: Reader) -> frozenset[int]:
    """Runs that nobody has closed: what a killed node has left of them must not live on beside their successors."""
    return frozenset(run.id for run in reader.runs(Filter(status=RunStatus.RUNNING, limit=100_000)))
