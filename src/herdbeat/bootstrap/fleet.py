"""A running fleet on this machine: opens and closes the store, the runners and the node.

Apart from `config`, which every command reads: a command that only asks when something is due loads no engine.
"""

import asyncio
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from herdbeat import __version__
from herdbeat.bootstrap.config import detect_system_zone, drop_stale_cache, load_config
from herdbeat.config.files import LiveEnvironment
from herdbeat.control_socket.server import ControlHandlers, open_control_socket
from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import AgentSpec, Target, TargetKind
from herdbeat.errors import StoreLocked, StoreUnavailable
from herdbeat.events import ConfigRejected, EventListener, combine_listeners, null_listener, safe_listener
from herdbeat.executors.registry import open_executors
from herdbeat.notify.deliverer import ChannelDeliverer
from herdbeat.platform import read_own_origin
from herdbeat.runners.agents.price_package import estimate_price
from herdbeat.runners.functions import LocalFunctions
from herdbeat.runners.process.reaper import has_leftovers
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import LogStream, find_last_part, find_raw_output
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.apply.apply import ApplyResult, apply_fleet, require_same_fleet
from herdbeat.scheduler.execute import RunExecutor, no_obstacle, prefetch_in_thread
from herdbeat.scheduler.hooks import HookPlanner
from herdbeat.scheduler.loop import NodeParts, NodeSettings
from herdbeat.scheduler.membership import LostReports, NodeInfo
from herdbeat.scheduler.node import Node
from herdbeat.scheduler.outbox import OutboxSender
from herdbeat.scheduler.remote import EngineContext, LogWriter, RemoteRuns
from herdbeat.scheduler.rules import RuleEvaluator
from herdbeat.scheduler.sessions import take_sessions
from herdbeat.scheduler.timers import DatabaseTimer, SystemTimer, Timer
from herdbeat.scheduler.work import WorkFetcher
from herdbeat.scheduler.work_settle import NodeWork, WorkSettler
from herdbeat.service.commands.base import Actor, AppliedFleet
from herdbeat.service.commands.dispatch import LoadedFleet, NodeDispatcher
from herdbeat.service.commands.fleet import load_applied_fleet
from herdbeat.service.config_watch import build_rejection
from herdbeat.service.maintenance.output_sync import OutputSync
from herdbeat.service.maintenance.worker import MaintenanceWorker
from herdbeat.service.metrics import NodeMetrics, publish_metrics
from herdbeat.service.run_tokens import open_own_tools
from herdbeat.service.workspaces import prune_workspaces
from herdbeat.store.base import SharedStore, Transaction
from herdbeat.store.location import (
    StoreHandle,
    StoreLocation,
    create_store,
    name_ledger,
    open_audit,
    open_reader,
    open_shared_store,
    resolve_state_dir,
    store_location,
)
from herdbeat.store.reader import Filter, Reader
from herdbeat.store.record_mapping import read_target_spec
from herdbeat.store.spec_cache import SpecCache, VersionedSpecCache
from herdbeat.store.state_lock import StateLock
from herdbeat.threads import call_in_thread
from herdbeat.work.registry import OpenSources, SourceContext

if TYPE_CHECKING:
    from herdbeat.bootstrap.tracing import RunTracer
    from herdbeat.service.notifications.worker import NotificationWorker
    from herdbeat.work.command import ProgramWatch

log = logging.getLogger(__name__)

STATE_CHECK_INTERVAL_S = 5.0
"""Seconds between two looks at the lock and the ledger on the disk. Each commit looks at the ledger, too."""

T = TypeVar("T")

MAX_LOCKED_START_S = 60.0
"""Seconds that a start waits for another program to release the ledger. A backup tool may hold it that long."""

_PROGRAM_VARIABLES = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What the programs of a command work source get beside the variables that its `env:` names."""

_CHAT_API_VARIABLES = {"slack_api": "HERDBEAT_SLACK_API", "discord_api": "HERDBEAT_DISCORD_API"}
"""Where Slack and Discord are, for tests and for gateways in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningFleet:
    """A fleet at work in this process. `folder` is what relative paths of its files count from."""

    fleet: Fleet
    node: Node
    store: StoreHandle
    apply_result: ApplyResult
    spec_cache: SpecCache
    runners: RunnerRegistry
    clock: Timer
    environ: Mapping[str, str]
    folder: Path
    listener: EventListener
    metrics: NodeMetrics
    channels: "LiveChannels"
    serving: asyncio.Task[None]
    state_watch: asyncio.Task[None]

    @property
    def state_dir(self) -> Path:
        return resolve_state_dir(self.store.location)

    @property
    def dispatcher(self) -> NodeDispatcher:
        """The command bus, in process."""
        return NodeDispatcher(self, self.listener)

    def load_applied(self, path: str) -> LoadedFleet:
        """Return the fleet that an apply of this path means, read with this process's own environment."""
        return load_applied_fleet(self.fleet, load_config(path, self.environ, self.folder), self.store.location)

    async def apply(self, actor: Actor, fleet: Fleet) -> AppliedFleet:
        """Apply a fleet that this process has read or built itself. Active runs continue."""
        return await self.dispatcher.apply(actor, fleet)

    async def record_rejection(self, event: ConfigRejected) -> None:
        """Record in the change log that the files were not applied. Not recorded while the ledger does not answer."""
        with suppress(StoreUnavailable):
            await self.store.write(lambda tx: tx.add_changes([build_rejection(event)]))

    def name_logins(self, tx: Transaction) -> None:
        _name_logins(tx, self.environ)

    def set_egress(self, allow: tuple[str, ...]) -> None:
        self.runners.set_egress(allow)

    def set_channels(self, fleet: Fleet) -> None:
        self.channels.update(fleet)
        if store_location(fleet) != self.store.location:
            # The files name another ledger: commands look there from now on, although this node keeps its own.
            drop_stale_cache(self.state_dir, None)

    async def wait_stopped(self, *companions: "asyncio.Task[None]") -> None:
        """Return when the node has stopped. Raises what it ended with, or what a companion task failed with.

        Raises StoreUnavailable if the lock or the ledger on the disk is no longer the one that it works with.
        """
        tasks = (self.state_watch, self.serving, *companions)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                await task


@dataclass(slots=True)
class LiveChannels:
    """The channels, the dead-man monitor and the chat as the files have them now.

    The worker that notifies exists from the first channel on: fleets without one do not pay for its connection. The
    modules of what the files do not ask for are not imported, either: most of a start is imports.
    """

    fleet: Fleet
    notifier: "NotificationWorker | None" = None
    _watches: list[asyncio.Event] = field(default_factory=list)

    def watch(self) -> asyncio.Event:
        """Return an event that is set after each change of the files. It is the caller's to clear."""
        watch = asyncio.Event()
        self._watches.append(watch)
        return watch

    def update(self, fleet: Fleet) -> None:
        self.fleet = fleet
        if self.notifier is not None:
            self.notifier.fleet = fleet
        for watch in self._watches:
            watch.set()

    async def wait_for(self, is_wanted: Callable[[Fleet], object], module: str) -> asyncio.Event:
        """Return once the files ask for something, with its module imported, and the event of their next change."""
        changed = self.watch()
        while not is_wanted(self.fleet):
            changed.clear()
            await changed.wait()
        await call_in_thread(import_module, module)  # in a thread: the import would delay beats
        return changed

    async def report_stopping(self) -> None:
        if self.notifier is not None:
            await self.notifier.report_stopped()


@asynccontextmanager
async def running_fleet(
    fleet: Fleet,
    *,
    environ: Mapping[str, str],
    folder: Path | None = None,
    listener: EventListener = null_listener,
    timer: Timer | None = None,
    max_concurrent: int = 100,
    local_functions: LocalFunctions | None = None,
    labels: Sequence[str] = (),
    apply_config: bool = False,
    server_url: str = "",
) -> AsyncIterator[RunningFleet]:
    """Run the fleet inside the block. Raises Conflict if another process runs it already.

    The block waits with `wait_stopped`; leaving it earlier, or with an error, cuts off what runs. An SQLite ledger is
    brought to what the fleet says at every start; a shared one only with `apply_config`. Agents that are isolated reach
    our tools at `server_url`. The `.env` beside the fleet file completes `environ`.
    """
    location, variables = store_location(fleet), LiveEnvironment(fleet.home, environ)
    environ = dict(variables)
    with StateLock(resolve_state_dir(location), name_ledger(location)) as lock, _open_store(location, fleet) as store:
        drop_stale_cache(resolve_state_dir(location), location if isinstance(location, Path) else None)
        metrics, tracer = NodeMetrics(), _open_tracer(environ, fleet)
        counting = _count_events(metrics, listener, tracer)
        context = await _open_context(fleet, store, timer or SystemTimer(), counting)
        context = replace(context, server_url=server_url)
        apply_result = await _apply_config(context, apply_config=apply_config)
        await _write_when_unlocked(context, lambda tx: _name_logins(tx, environ))
        settings = _build_node_settings(context, max_concurrent, labels)
        runner_settings = _build_runner_settings(
            context, settings, environ, folder=folder, local_functions=local_functions, server_url=server_url
        )
        runner_settings = replace(runner_settings, variables=variables)
        async with _open_node(context, settings, runner_settings) as (node, spec_cache, runners):
            serving = asyncio.create_task(node.serve(), name="node")
            state_watch = asyncio.create_task(_watch_state(lock, store), name="state watch")
            publishing = _publish_if_shared(metrics, store, context.clock)
            async with _end_at_exit((serving, state_watch, *publishing), tracer):
                running = RunningFleet(
                    fleet=fleet,
                    node=node,
                    store=store,
                    apply_result=apply_result,
                    spec_cache=spec_cache,
                    runners=runners,
                    clock=context.clock,
                    environ=environ,
                    folder=folder or Path.cwd(),
                    listener=context.listener,
                    metrics=metrics,
                    channels=context.channels,
                    serving=serving,
                    state_watch=state_watch,
                )
                async with _open_chat(running):
                    yield running


def _build_runner_settings(
    context: "_NodeContext",
    settings: NodeSettings,
    environ: Mapping[str, str],
    *,
    folder: Path | None,
    local_functions: LocalFunctions | None,
    server_url: str,
) -> RunnerSettings:
    fleet, location = context.fleet, context.store.location
    return RunnerSettings(
        state_dir=resolve_state_dir(location),
        environ=environ,
        home=Path(fleet.home),
        max_concurrent=max(1, settings.max_concurrent),
        module_folders=(Path(fleet.home),),
        egress_allow=fleet.egress_allow,
        local_functions=local_functions or LocalFunctions(),
        is_embedded=local_functions is not None,
        zone=detect_system_zone(environ),
        fleet_files=_list_fleet_files(fleet, folder),
        own_tools=open_own_tools(context.store, location, url=server_url, public_url=fleet.server.public_url),
    )


@asynccontextmanager
async def _end_at_exit(tasks: "Sequence[asyncio.Task[None]]", tracer: "RunTracer | None") -> AsyncIterator[None]:
    """End the tasks in this order when the block is left, then send the spans that are left."""
    try:
        yield
    finally:
        for task in tasks:
            await end_task(task)
        if tracer is not None:
            await call_in_thread(tracer.close)


def _read_lost_reports(
    run_ids: Iterable[int], reader: Reader, settings: RunnerSettings, clock: Timer
) -> dict[int, AgentReport]:
    """Return what is left here of runs that a killed node of this state directory had started."""
    found: dict[int, AgentReport] = {}
    for run_id in run_ids:
        if find_raw_output(settings.state_dir, run_id) is None or (run := reader.run(run_id)) is None:
            continue  # no agent, or the run of another machine
        known = reader.find_target(run.schedule.partition("/")[0])
        spec = reader.targets([known[0]])[known[0]].spec if known is not None else None
        if isinstance(spec, AgentSpec):
            from herdbeat.runners.agents.output import read_lost_report  # noqa: PLC0415 -- few nodes are killed
            from herdbeat.runners.agents.runner import redact_report  # noqa: PLC0415

            now = clock.now()
            report = read_lost_report(settings.state_dir, run_id, spec, settings.environ, settings.zone, now)
            if report is not None:
                found[run_id] = redact_report(report)
    return found


def _name_logins(tx: Transaction, environ: Mapping[str, str]) -> None:
    """Remember which account each new agent will use on this node: a usage limit holds it before its first run, too."""
    missing = tx.account_list_missing()
    if not missing:
        return
    from herdbeat.runners.agents.accounts import find_login  # noqa: PLC0415 -- only for fleets with agents

    logins = {
        number: login
        for number, text in missing.items()
        if isinstance(spec := read_target_spec(TargetKind.AGENT, text), AgentSpec)
        and (login := find_login(spec, environ)) is not None
    }
    if logins:
        tx.account_set_many(logins)


def _list_fleet_files(fleet: Fleet, folder: Path | None) -> tuple[Path, ...]:
    """Return the files that define the fleet. Locations name them relative to the folder of the process."""
    base = folder or Path.cwd()
    return (Path(fleet.home) / ".env", *(base / name for name in fleet.files))


async def _watch_state(lock: StateLock, store: StoreHandle) -> None:
    """Raises StoreUnavailable when the state directory or the ledger was taken away: no waiting brings it back."""
    while True:
        await asyncio.sleep(STATE_CHECK_INTERVAL_S)
        if lock.check():
            where = resolve_state_dir(store.location)
            log.warning("lock file restored state=%s it was deleted while this process held it", where)
        store.require_intact()


def _publish_if_shared(metrics: NodeMetrics, store: StoreHandle, timer: Timer) -> "tuple[asyncio.Task[None], ...]":
    """Let servers elsewhere report the counters of this node. The only node of a file is asked directly."""
    if isinstance(store.location, Path):
        return ()
    return (asyncio.create_task(publish_metrics(metrics, store, timer), name="metrics"),)


def _open_tracer(environ: Mapping[str, str], fleet: Fleet) -> "RunTracer | None":
    """Return what sends a span per run, if the standard variables of OpenTelemetry name a collector."""
    if not any(name in environ for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        return None
    from herdbeat.bootstrap.tracing import RunTracer, find_trace_target  # noqa: PLC0415 -- nobody else needs it

    target = find_trace_target(environ)
    return None if target is None else RunTracer(target, fleet.name)


def _count_events(metrics: NodeMetrics, listener: EventListener, tracer: "RunTracer | None") -> EventListener:
    """A fleet without a listener publishes nothing, and counts nothing: events are made for each beat."""
    if listener is null_listener and tracer is None:
        return null_listener
    traced = () if tracer is None else (tracer.record,)
    return safe_listener(combine_listeners(metrics.record, *traced, listener))


def find_chat_targets(fleet: Fleet) -> list[Target]:
    """Return the agents that have a `chat` block."""
    return [each for each in fleet.targets if isinstance(each.spec, AgentSpec) and each.spec.chat]


def find_chat_addresses(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of the platforms that the environment replaces."""
    return {name: environ[key].rstrip("/") for name, key in _CHAT_API_VARIABLES.items() if environ.get(key)}


@asynccontextmanager
async def _open_chat(running: RunningFleet) -> AsyncIterator[None]:
    """Connect the agents that have a `chat` block, as soon as the files have one."""

    async def chat() -> None:
        changed = await running.channels.wait_for(find_chat_targets, "herdbeat.bootstrap.chat")
        from herdbeat.bootstrap.chat import serve_chat  # noqa: PLC0415

        await serve_chat(running, changed)

    task = asyncio.create_task(chat(), name="chat")
    task.add_done_callback(log_failure)
    try:
        yield
    finally:
        await end_task(task)


def log_failure(task: "asyncio.Task[None]") -> None:
    """Log that a task of the chat has ended. Beats go on without it, so nothing else would show it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("%s stopped error=%r restart the node to connect again", task.get_name(), error, exc_info=error)


@asynccontextmanager
async def control_socket(running: RunningFleet) -> AsyncIterator[Path]:
    """Let other processes reach the fleet inside the block."""
    handlers = ControlHandlers(running.fleet, running.node, running.dispatcher, running.metrics).handlers
    async with open_control_socket(running.state_dir, handlers) as socket_path:
        yield socket_path


async def end_task(task: "asyncio.Task[None]") -> None:
    """Cancel a task that still runs, and wait until it has ended. Its error was raised where it was awaited."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # retrieved, or Python prints it when the task is collected


@contextmanager
def _open_store(place: StoreLocation, fleet: Fleet) -> Iterator[StoreHandle]:
    store = create_store(place, lease=fleet.lease)
    store.open()
    try:
        yield store
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class _NodeContext:
    """What a node works with. `shared` is the part of the store that nodes have in common; None for a single node."""

    fleet: Fleet
    store: StoreHandle
    shared: SharedStore | None
    clock: Timer
    listener: EventListener
    channels: LiveChannels
    server_url: str = ""


async def _open_context(fleet: Fleet, store: StoreHandle, local_timer: Timer, listener: EventListener) -> _NodeContext:
    context = _NodeContext(fleet, store, open_shared_store(store), local_timer, listener, LiveChannels(fleet))
    if context.shared is None:
        return context
    clock = DatabaseTimer(local_timer, context.shared.now)
    await clock.measure()
    return replace(context, clock=clock)


async def _apply_config(context: _NodeContext, *, apply_config: bool) -> ApplyResult:
    """Apply the files, unless nodes share the store: two nodes with two versions of them would undo each other."""
    fleet = context.fleet
    if context.shared is None or apply_config:
        return await _write_when_unlocked(context, lambda tx: apply_fleet(tx, fleet, context.clock.now()))
    await _write_when_unlocked(context, lambda tx: require_same_fleet(tx, fleet.name))
    return ApplyResult()


async def _write_when_unlocked(context: _NodeContext, work: Callable[[Transaction], T]) -> T:
    """Write, and wait for another program that has locked the ledger. Raises StoreLocked if it takes long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + MAX_LOCKED_START_S
    while True:
        try:
            return await context.store.write(work)
        except StoreLocked as error:
            if loop.time() > deadline:
                raise
            log.warning("start waits for the ledger error=%s", error)  # each attempt has waited for the lock itself


def _build_node_settings(context: _NodeContext, max_concurrent: int, labels: Sequence[str]) -> NodeSettings:
    """Where one node is the whole fleet, the fleet's limit is the node's own, too."""
    fleet, is_single_node = context.fleet, context.shared is None
    if is_single_node and fleet.max_concurrent:
        max_concurrent = min(max_concurrent, fleet.max_concurrent)
    return NodeSettings(
        node_id=0,
        max_concurrent=max_concurrent,
        check_interval=fleet.check_interval,
        catchup_rate=fleet.catchup_rate,
        lease=fleet.lease,
        labels=frozenset(labels),
        fleet_limit=None if is_single_node else fleet.max_concurrent,
    )


@asynccontextmanager
async def _open_node(
    context: _NodeContext, settings: NodeSettings, runner_settings: RunnerSettings
) -> AsyncIterator[tuple[Node, SpecCache, RunnerRegistry]]:
    """Yield a node, the cache of the specs that it runs, and its runners."""
    store, clock, shared = context.store, context.clock, context.shared
    maintenance = _open_maintenance(context, runner_settings)
    with closing(open_reader(store.location)) as reader:
        async with open_runners(runner_settings, clock) as runners, AsyncExitStack() as stack:
            active_ids = _list_active_run_ids(reader)
            await runners.end_leftovers(active_ids)
            lost = _read_lost_reports(active_ids, reader, runner_settings, clock)
            spec_cache = _open_specs(reader, runner_settings, is_shared=shared is not None)
            sources = await stack.enter_async_context(_open_sources(clock, runner_settings, runners.programs))
            host = platform.node()
            fetcher = WorkFetcher(store, sources, clock, host)
            settler = WorkSettler(store, sources, clock, host, is_alone=shared is None)
            remote = _open_remote(context, settings, runner_settings, runners, stack)
            executor = _open_executor(context, spec_cache, runners, fetcher, remote)
            deliverer = _open_deliverer(context, runner_settings, stack)
            outbox = OutboxSender(store, deliverer, clock, host, is_alone=shared is None)
            workers = await _open_workers(context, runner_settings, outbox, stack)
            works = [maintenance.run, settler.run, outbox.run, *workers, _preload_runners(context, runners)]
            parts = NodeParts(
                store=store,
                timer=clock,
                execute_run=executor,
                evaluate_rules=RuleEvaluator(reader, clock, is_remote=shared is not None),
                listener=context.listener,
                maintenance=partial(_run_concurrently, *works),
                prefetch=executor.prefetch,
                wait_stopped=runners.wait_stopped,
                shared=shared,
                estimate_price=estimate_price,
                lost_reports=LostReports(lost, estimate_price),
                on_renewed=runners.renew,
                has_leftovers=has_leftovers,
                work=NodeWork(fetcher, settler),
                plan_hooks=HookPlanner(spec_cache, reader, clock, host, context.fleet.server.public_url),
                outbox=outbox,
                remote=remote,
                on_stopping=context.channels.report_stopping,
            )
            if shared is not None:
                _share_outputs(parts, executor, shared, works)
            node = Node(parts, settings, _build_node_info(settings))
            _start_dead_man(context, node, deliverer, stack)
            yield node, spec_cache, runners


def _open_executor(
    context: _NodeContext,
    spec_cache: SpecCache,
    runners: RunnerRegistry,
    fetcher: WorkFetcher,
    remote: RemoteRuns,
) -> RunExecutor:
    return RunExecutor(
        spec_cache,
        runners,
        context.clock,
        runners.check,
        # What runs on an engine needs nothing of this machine.
        find_obstacle=no_obstacle if remote.has_engines else runners.find_obstacle,
        load_runner=runners.load,
        take_session=take_sessions(context.store, context.clock, platform.node()),
        work=fetcher,
        remote=remote,
    )


def _open_specs(reader: Reader, settings: RunnerSettings, *, is_shared: bool) -> SpecCache:
    return VersionedSpecCache(reader, settings.variables or settings.environ) if is_shared else SpecCache(reader)


async def _open_workers(
    context: _NodeContext, settings: RunnerSettings, outbox: OutboxSender, stack: AsyncExitStack
) -> list[Callable[[], Coroutine[None, None, None]]]:
    """Return the work beside the loop that only some fleets have: notifications and the planner."""
    notify = partial(_notify, context, outbox, stack)
    workers: list[Callable[[], Coroutine[None, None, None]]] = [notify]
    if context.fleet.planner is not None:
        from herdbeat.bootstrap.planner import open_planner  # noqa: PLC0415 -- few fleets have a planner

        planner = await open_planner(
            context.fleet, context.store, context.clock, settings.environ, settings.zone, stack
        )
        workers.append(planner.run)
    return workers


def _share_outputs(
    parts: NodeParts,
    executor: RunExecutor,
    shared: SharedStore,
    works: Sequence[Callable[[], Coroutine[None, None, None]]],
) -> None:
    """Let other nodes of a shared store read the outputs of this one. Its reads cross a network: not in the loop."""
    outputs = OutputSync(executor, shared, parts.timer)
    parts.execute_run = outputs.execute_run
    parts.maintenance = partial(_run_concurrently, *works, outputs.run)
    parts.prefetch = prefetch_in_thread(executor.prefetch)


def _start_dead_man(context: _NodeContext, node: Node, deliverer: ChannelDeliverer, stack: AsyncExitStack) -> None:
    channels = context.channels

    async def ping() -> None:
        changed = await channels.wait_for(lambda fleet: fleet.dead_man, "herdbeat.service.notifications.worker")
        from herdbeat.service.notifications.worker import ping_dead_man  # noqa: PLC0415

        await ping_dead_man(
            lambda: channels.fleet.dead_man,
            changed,
            context.clock,
            lambda: 0 if node.loop is None else node.loop.completed_cycles,
            deliverer.ping,
        )

    pinging = asyncio.create_task(ping(), name="dead man")
    stack.push_async_callback(end_task, pinging)


def _open_remote(
    context: _NodeContext,
    settings: NodeSettings,
    runner_settings: RunnerSettings,
    runners: RunnerRegistry,
    stack: AsyncExitStack,
) -> RemoteRuns:
    """Return what runs targets on engines. A fleet that has no engine any more may still have runs there."""
    fleet = context.fleet
    engines = open_executors(fleet.executors, runner_settings.environ, context.clock)
    for engine in engines.values():
        stack.push_async_callback(engine.close)
    own_tools = runner_settings.own_tools
    engine_context = EngineContext(
        settings=fleet.executors,
        engines=engines,
        labels=settings.labels,
        server_url=fleet.server.public_url or context.server_url or ("" if own_tools is None else own_tools.url),
        folder=str(runner_settings.home.absolute()),
    )

    @contextmanager
    def open_log(run_id: int) -> Iterator[LogWriter]:
        with runner_settings.open_log(run_id, context.clock) as run_log:
            yield LogWriter(
                # Its process has applied the cap, and written the end of an output that is longer.
                write=lambda stream, text: run_log.write_uncapped(LogStream(stream), text),
                note=run_log.note,
                last_part=lambda: find_last_part(runner_settings.state_dir, run_id),
                mark_part=run_log.mark_part,
            )

    remote = RemoteRuns(runners, engine_context, context.store, context.clock, open_log)
    remote.poll_interval = fleet.check_interval
    if remote.has_engines:
        sweeping = asyncio.create_task(remote.sweep_forever(), name="leftover jobs")
        stack.push_async_callback(end_task, sweeping)
    return remote


def _open_maintenance(context: _NodeContext, settings: RunnerSettings) -> MaintenanceWorker:
    return MaintenanceWorker(
        context.store,
        open_audit(context.store.location),
        context.clock,
        context.fleet.retention,
        listener=context.listener,
        prune_workspaces=lambda now: len(prune_workspaces(settings.state_dir, settings.environ, now)),
    )


async def _notify(context: _NodeContext, outbox: OutboxSender, stack: AsyncExitStack) -> None:
    """Notify the channels, from the first one on, until cancelled. A node that rejoins continues with the same worker.

    The worker has a reader of its own, because it reads in threads.
    """
    channels = context.channels
    await channels.wait_for(lambda fleet: fleet.notify, "herdbeat.service.notifications.worker")
    from herdbeat.service.notifications.worker import NotificationWorker  # noqa: PLC0415

    if channels.notifier is None:
        reader = stack.enter_context(closing(open_reader(context.store.location)))
        channels.notifier = NotificationWorker(
            context.store,
            reader,
            context.clock,
            channels.fleet,
            os.getpid(),
            outbox.wake,
            is_alone=context.shared is None,
            reports_start=bool(context.fleet.notify),
        )
    await channels.notifier.run()


def _open_deliverer(context: _NodeContext, settings: RunnerSettings, stack: AsyncExitStack) -> ChannelDeliverer:
    """Channels read their secrets from the environment of this process, when they send."""
    addresses = find_chat_addresses(settings.environ)
    deliverer = ChannelDeliverer(
        lambda: context.channels.fleet.notify or {}, settings.variables or settings.environ, settings.home, **addresses
    )
    stack.push_async_callback(deliverer.close)
    return deliverer


@asynccontextmanager
async def _open_sources(clock: Timer, settings: RunnerSettings, programs: "ProgramWatch") -> AsyncIterator[OpenSources]:
    """Work sources read their tokens from the environment of this process; their programs get the basics of it."""
    environ = settings.variables or settings.environ
    basics = {name: environ[name] for name in _PROGRAM_VARIABLES if name in environ}
    context = SourceContext(clock=clock, environment=environ, program_environment=basics, programs=programs)
    sources = OpenSources(context)
    try:
        yield sources
    finally:
        await sources.close()


def _preload_runners(context: _NodeContext, runners: RunnerRegistry) -> Callable[[], Coroutine[None, None, None]]:
    return partial(runners.preload, {target.spec.kind for target in context.fleet.targets})


async def _run_concurrently(*works: Callable[[], Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for each in works:
            tasks.create_task(each(), name="maintenance")


def _build_node_info(settings: NodeSettings) -> NodeInfo:
    labels, works = tuple(sorted(settings.labels)), settings.max_concurrent > 0
    origin = read_own_origin()
    return NodeInfo(
        host=platform.node(), pid=os.getpid(), version=__version__, labels=labels, works=works, origin=origin
    )


def _list_active_run_ids(reader: Reader) -> frozenset[int]:
    """Return the runs without an end: the processes that a killed node left must not live beside their successors."""
    return frozenset(run.id for run in reader.runs(Filter(status=RunStatus.RUNNING, limit=100_000)))
