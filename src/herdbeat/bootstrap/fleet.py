"""A fleet at work on this machine: the store, the runners and the scheduler, put together and taken apart again.

Beside `app`, which is read by every command: who only asks when something is due must not load an engine.
"""

import asyncio
import gc
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
from herdbeat.events import EventListener, null_listener, safe_listener
from herdbeat.runners.functions import LocalFunctions
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.apply.apply import ApplyResult, apply_fleet, require_same_fleet
from herdbeat.scheduler.execute import RunExecutor, prefetch_in_thread
from herdbeat.scheduler.loop import NodeSettings
from herdbeat.scheduler.membership import NodeInfo
from herdbeat.scheduler.node import Node, NodeParts
from herdbeat.scheduler.timers import DatabaseTimer, SystemTimer, Timer
from herdbeat.service.maintenance.output_sync import OutputSync
from herdbeat.service.maintenance.worker import MaintenanceWorker
from herdbeat.store.base import SharedStore
from herdbeat.store.location import (
    StoreHandle,
    StoreLocation,
    create_store,
    open_audit,
    open_reader,
    open_shared_store,
    resolve_state_dir,
    store_location,
)
from herdbeat.store.reader import Filter, Reader
from herdbeat.store.spec_cache import SpecCache, VersionedSpecCache
from herdbeat.store.state_lock import StateLock

# How often Python looks for garbage in a process that is all herdbeat's.
#
# Nothing on the way of a beat is a cycle, so there is next to nothing to find, and looking took a tenth of the time of
# a burst. It is still done, just not every 700 objects. A program that embeds a fleet keeps its own setting.


GC_THRESHOLD_OBJECTS = 50_000
"""New objects between two looks at the young ones: a few MB."""


def tune_gc() -> None:
    """What is there by now, modules and tables, stays to the end and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD_OBJECTS, 20, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningFleet:
    """Told once, when the fleet is at work."""

    node: Node
    store: StoreHandle
    apply_result: ApplyResult
    state_dir: Path
    spec_cache: SpecCache
    clock: Timer


async def run_fleet(
    fleet: Fleet,
    *,
    environ: Mapping[str, str],
    on_ready: Callable[[RunningFleet], None],
    listener: EventListener = null_listener,
    timer: Timer | None = None,
    max_concurrent: int = 100,
    local_functions: LocalFunctions | None = None,
    labels: Sequence[str] = (),
    apply_config: bool = False,
) -> None:
    """Run the fleet until its node is told to stop. Raises Conflict if another process does so already.

    A file is brought to what the fleet says at every start; a store that nodes share only if the node `applies`.
    """
    place = store_location(fleet)
    with StateLock(resolve_state_dir(place)), _open_store(place, fleet) as store:
        context = await _open_context(store, timer or SystemTimer())
        apply_result = await _apply_config(context, fleet, apply_config=apply_config)
        settings = _loop_settings(fleet, context, max_concurrent, labels)
        runner_settings = _runner_settings(fleet, context, settings, environ, local_functions or LocalFunctions())
        async with _open_node(context, settings, runner_settings, fleet, safe_listener(listener)) as (node, spec_cache):
            on_ready(
                RunningFleet(
                    node=node,
                    store=store,
                    apply_result=apply_result,
                    state_dir=context.state_dir,
                    spec_cache=spec_cache,
                    clock=context.clock,
                )
            )
            await node.serve()


async def replace_fleet(
    ready: RunningFleet, fleet: Fleet, now: datetime, who: str = "up", *, is_whole: bool = True
) -> ApplyResult:
    """Give a fleet at work other targets and schedules. Runs that are going go on."""
    apply_result = await ready.store.write(lambda tx: apply_fleet(tx, fleet, now, who, is_whole=is_whole))
    ready.spec_cache.clear()
    ready.node.wake()
    return apply_result


@contextmanager
def _open_store(place: StoreLocation, fleet: Fleet) -> Iterator[StoreHandle]:
    store = create_store(place, lease=fleet.lease)
    store.open()
    try:
        yield store
    finally:
        store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeContext:
    """What a node stands on. `shared` is what it has in common with others; None where it is alone."""

    store: StoreHandle
    shared: SharedStore | None
    clock: Timer

    @property
    def state_dir(self) -> Path:
        return resolve_state_dir(self.store.location)


async def _open_context(store: StoreHandle, local_timer: Timer) -> _NodeContext:
    shared = open_shared_store(store)
    if shared is None:
        return _NodeContext(store=store, shared=None, clock=local_timer)
    clock = DatabaseTimer(local_timer, shared.now)
    await clock.measure()
    return _NodeContext(store=store, shared=shared, clock=clock)


async def _apply_config(context: _NodeContext, fleet: Fleet, *, apply_config: bool) -> ApplyResult:
    """Nodes that share a store do not each bring their files along: that would be a quarrel. They are applied once."""
    if apply_config or context.shared is None:
        return await context.store.write(lambda tx: apply_fleet(tx, fleet, context.clock.now()))
    await context.store.write(lambda tx: require_same_fleet(tx, fleet.name))
    return ApplyResult()


def _loop_settings(fleet: Fleet, context: _NodeContext, max_concurrent: int, labels: Sequence[str]) -> NodeSettings:
    """One node is the whole fleet, so where it is alone the fleet's limit is the node's own, too."""
    is_single_node = context.shared is None
    return NodeSettings(
        node_id=0,
        max_concurrent=min(max_concurrent, fleet.max_concurrent or max_concurrent)
        if is_single_node
        else max_concurrent,
        check_interval=fleet.check_interval,
        catchup_rate=fleet.catchup_rate,
        lease=fleet.lease,
        labels=frozenset(labels),
        fleet_limit=None if is_single_node else fleet.max_concurrent,
    )


def _runner_settings(
    fleet: Fleet,
    context: _NodeContext,
    settings: NodeSettings,
    environ: Mapping[str, str],
    local_functions: LocalFunctions,
) -> RunnerSettings:
    return RunnerSettings(
        state_dir=context.state_dir,
        environ=environ,
        home=Path(fleet.home),
        max_concurrent=max(1, settings.max_concurrent),
        module_folders=(Path(fleet.home),),
        egress_allow=fleet.egress_allow,
        local_functions=local_functions,
    )


@asynccontextmanager
async def _open_node(
    context: _NodeContext,
    settings: NodeSettings,
    runner_settings: RunnerSettings,
    fleet: Fleet,
    listener: EventListener,
) -> AsyncIterator[tuple[Node, SpecCache]]:
    """A node with its runners, until the block is left, and the shelf from which it takes what it runs."""
    store, clock = context.store, context.clock
    with closing(open_reader(store.location)) as reader:
        async with open_runners(runner_settings, clock) as runners:
            await runners.end_leftovers(_active_run_ids(reader))
            spec_cache = SpecCache(reader) if context.shared is None else VersionedSpecCache(reader)
            perform = RunExecutor(spec_cache, runners, clock, runners.check)
            maintenance = MaintenanceWorker(
                store, open_audit(store.location), clock, fleet.retention, listener=listener
            )
            outputs = None if context.shared is None else OutputSync(perform, context.shared, clock)
            parts = NodeParts(
                store=store,
                timer=clock,
                execute_run=perform if outputs is None else outputs.execute_run,
                listener=listener,
                maintenance=maintenance.run
                if outputs is None
                else partial(_run_concurrently, maintenance.run, outputs.run),
                prefetch=perform.prefetch if context.shared is None else prefetch_in_thread(perform.prefetch),
                wait_stopped=runners.wait_stopped,
                shared=context.shared,
                on_renewed=runners.renew,
            )
            yield Node(parts, settings, _node_info(settings)), spec_cache


async def _run_concurrently(*works: Callable[[], Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for each in works:
            tasks.create_task(each(), name="upkeep")


def _node_info(settings: NodeSettings) -> NodeInfo:
    return NodeInfo(
        host=platform.node(),
        pid=os.getpid(),
        version=__version__,
        labels=tuple(sorted(settings.labels)),
        works=settings.max_concurrent > 0,
    )


def _active_run_ids(reader: Reader) -> frozenset[int]:
    """Runs that nobody has closed: what a killed node has left of them must not live on beside their successors."""
    return frozenset(run.id for run in reader.runs(Filter(status=RunStatus.RUNNING, limit=100_000)))
