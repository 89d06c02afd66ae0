"""`herdbeat up`: the fleet at work in the foreground, until somebody stops it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from herdbeat import __version__
from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import RunningFleet, run_fleet, tune_gc
from herdbeat.cli import spec as flags
from herdbeat.cli.commands.demo import DemoFleet, open_demo
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files
from herdbeat.cli.output.errors import problem_lines
from herdbeat.cli.output.live import JsonFeed, LiveFeed, LiveLineFormatter
from herdbeat.cli.output.plan import summarize_plan
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.output.terminal import Terminal, display_width
from herdbeat.cli.parser import ParsedArgs
from herdbeat.config import LoadResult
from herdbeat.control_socket.client import NotRunning, send_request
from herdbeat.control_socket.handlers import ControlHandlers, FleetHandlers
from herdbeat.control_socket.server import RequestHandler, run_with_socket
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Conflict, SchedulerShutdownError, UsageError
from herdbeat.events import EventListener
from herdbeat.scheduler.node import Node
from herdbeat.service.commands.fleet import preview_apply
from herdbeat.service.config_watch import ConfigWatcher
from herdbeat.store.location import StoreLocation, open_reader, resolve_state_dir, select_clock, store_location

# What runs beside the fleet of `herdbeat up`: the demo's endpoints, and the watch over its files.


@dataclass(frozen=True, slots=True, kw_only=True)
class SideServices:
    """`config` is the path that was asked for, or the demo's own; `reading` is what was found there."""

    config: str | None
    context: Context
    demo: DemoFleet | None = None
    reading: LoadResult | None = None

    @asynccontextmanager
    async def open_handlers(
        self, fleet: Fleet, ready: RunningFleet, listener: EventListener
    ) -> AsyncIterator[Mapping[str, RequestHandler]]:
        """Until the block is left. What can be asked of it through the socket is what it yields."""
        context = self.context
        config_handlers = FleetHandlers(fleet, ready, ready.clock, context.environ, context.folder, listener)
        read = partial(load_config, self.config, context.environ, context.folder)
        reloader = ConfigWatcher(fleet, context.folder, read, config_handlers.apply_fleet, listener, context.clock)
        assert self.reading is not None, "the files are read before the fleet is at work"
        reloader.start_watching(self.reading)
        async with AsyncExitStack() as stack:
            if self.demo is not None:
                await stack.enter_async_context(self.demo.serve_endpoints())
            if not isinstance(ready.store.location, Path):
                # Nodes that share a store take what they run from `apply`, not from their files.
                yield config_handlers.handlers
                return
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            watch = tasks.create_task(reloader.run(), name="watch over the files")
            try:
                yield config_handlers.handlers
            finally:
                watch.cancel()

    def tour_lines(self) -> Iterator[str]:
        if self.demo is not None:
            yield from self.demo.tour_lines(self.context)


def open_side_services(args: ParsedArgs, context: Context) -> SideServices:
    """Raises UsageError, or Conflict if the demo runs already."""
    demo = open_demo(args, context)
    return SideServices(config=args.value(flags.CONFIG) if demo is None else str(demo.file), context=context, demo=demo)


# What `up` says where nodes share a ledger: it runs what was applied, whatever the files beside it say.


NOTHING_APPLIED = "Nothing was applied to this database yet, so nothing runs. Bring these files along: herdbeat apply"


def describe_unapplied(fleet: Fleet, context: Context) -> str:
    """How the files differ from what was applied; empty if they do not, or if a file is the ledger."""
    place = store_location(fleet)
    if isinstance(place, Path):
        return ""
    clock = select_clock(place, context.clock)
    plan = None if clock is None else preview_apply(place, fleet, clock.now())
    if plan is None or not plan.stored.schedules:
        return NOTHING_APPLIED
    if not plan.items:
        return ""
    return (
        f"These files are not what was applied: {summarize_plan(plan, 'to')} Nodes run what was applied.\n"
        "Look at it: herdbeat apply --dry-run   Bring it about: herdbeat apply"
    )


def describe_applied(place: StoreLocation) -> str:
    """How much there is to run."""
    reader = open_reader(place)
    try:
        return f"{format_count(reader.count_all_schedules(), 'schedule')} applied"
    finally:
        reader.close()


EXIT_INTERRUPTED = 130
LOCK_TIMEOUT_S = 5.0
"""Seconds to wait for a command that is just writing into the same ledger."""

_MAX_LABEL_WIDTH = 32


def run_up(args: ParsedArgs, context: Context) -> int:
    side_services = open_side_services(args, context)
    reading, fleet = load_fleet_files(side_services.config, context)
    is_hopeless = bool(reading.errors) and not fleet.schedules
    if is_hopeless and args.has(flags.JSON):
        raise ConfigError(reading.errors)
    plain_terminal = Terminal(out=context.terminal.err, err=context.terminal.err)
    for line in (line for each in reading.errors for line in problem_lines(plain_terminal, each, reading.sources)):
        plain_terminal.print(line)
    if is_hopeless:
        # An empty fleet is not what anybody meant; and it would take the last good one out of the ledger.
        context.terminal.error("Nothing is left that could run. Nothing was changed.")
        return ConfigError.exit_status
    differs = "" if args.has(flags.APPLY) else describe_unapplied(fleet, context)
    if differs not in ("", NOTHING_APPLIED):  # where nothing was applied, the start is refused with the same words
        context.terminal.info(differs)
    if reading.errors:
        context.terminal.info("Until that is mended nothing is removed: what was right before goes on as it was.")
    max_concurrent = _parse_max_concurrent(args.value(flags.MAX_CONCURRENT))
    labels = _parse_labels(args.all_values(flags.LABEL))
    if args.has(flags.NO_WORKERS):
        max_concurrent = _resolve_no_workers(fleet)
    side_services = replace(side_services, reading=reading)
    session = UpSession(
        fleet,
        context,
        side_services,
        is_json=args.has(flags.JSON),
        max_concurrent=max_concurrent,
        labels=labels,
        apply_config=args.has(flags.APPLY),
    )
    try:
        asyncio.run(session.run())
    except SchedulerShutdownError as error:
        rest = "" if error.unwritten_result_count else " The ledger has what was cut off as interrupted."
        context.terminal.error(f"{error.message}{rest}")
        return EXIT_INTERRUPTED if session.was_cut_off else error.exit_status
    session.show_stopped()
    return 0


class UpSession:
    """One call of `up`, from its banner to its last word."""

    def __init__(
        self,
        fleet: Fleet,
        context: Context,
        side_services: SideServices,
        *,
        is_json: bool,
        max_concurrent: int,
        labels: tuple[str, ...] = (),
        apply_config: bool = False,
    ) -> None:
        self._fleet = fleet
        self._world = context
        self._side_services = side_services
        self._terminal = context.terminal
        self._is_json = is_json
        self._max_concurrent = max_concurrent
        self._labels = labels
        self._applies = apply_config
        self._node: Node | None = None
        self._is_stopping = False
        self.was_cut_off = False

    async def run(self) -> None:
        """Raises SchedulerShutdownError if runs were cut off, Conflict if another process runs this fleet."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        feed = self._build_feed(loop.call_later)
        deadline = loop.time() + LOCK_TIMEOUT_S
        while True:
            try:
                await self._serve_fleet(feed)
            except Conflict:
                # A command that writes holds the lock for a blink; a herdbeat that answers holds it for good.
                if loop.time() > deadline or self._is_already_running():
                    raise
                await asyncio.sleep(0.1)
            else:
                break

    async def _serve_fleet(self, feed: "LiveFeed | JsonFeed") -> None:
        def serving(on_ready: Callable[[RunningFleet], None]) -> Awaitable[None]:
            return run_fleet(
                self._fleet,
                environ=self._world.environ,
                on_ready=on_ready,
                listener=feed,
                max_concurrent=self._max_concurrent,
                labels=self._labels,
                apply_config=self._applies,
            )

        try:
            await run_with_socket(serving, self._on_ready, partial(self._open_handlers, feed))
        finally:
            feed.flush()

    @asynccontextmanager
    async def _open_handlers(
        self, feed: "LiveFeed | JsonFeed", ready: RunningFleet
    ) -> AsyncIterator[Mapping[str, RequestHandler]]:
        if isinstance(feed, LiveFeed):
            feed.use_clock(ready.clock)
        control_handlers = ControlHandlers(self._fleet, ready, ready.clock, feed)
        async with self._side_services.open_handlers(self._fleet, ready, feed) as handlers:
            yield {**control_handlers.handlers, **handlers}

    def _on_ready(self, ready: RunningFleet) -> None:
        self._node = ready.node
        self._show_banner(ready)
        tune_gc()
        if self._is_stopping:
            ready.node.stop(self._fleet.stop_timeout)

    def _on_signal(self) -> None:
        """The first one asks, the second one insists."""
        if self._is_stopping:
            self.was_cut_off = True
            if self._node is not None:
                self._node.hard_stop()
            return
        self._is_stopping = True
        if self._node is not None:
            self._node.stop(self._fleet.stop_timeout)
            self._show_stopping(self._node)

    def _show_stopping(self, node: Node) -> None:
        running = len(node.loop.active_runs) if node.loop else 0
        if running:
            seconds = f"{self._fleet.stop_timeout.total_seconds():g}s"
            self._terminal.info(
                f"Stopping: {format_count(running, 'run')} may finish (up to {seconds}). Ctrl+C again cuts off."
            )

    def _is_already_running(self) -> bool:
        try:
            send_request(resolve_state_dir(store_location(self._fleet)), {"do": "ping"}, timeout=1.0)
        except NotRunning:
            return False
        return True

    def _build_feed(self, call_later: Callable[..., object]) -> "LiveFeed | JsonFeed":
        names = [display_width(each.label) for each in self._fleet.schedules]
        label_width = min(max(names, default=0), _MAX_LABEL_WIDTH)
        lines = LiveLineFormatter(terminal=self._terminal, zone=self._fleet.zone, label_width=label_width)
        if self._is_json:
            return JsonFeed(lines)
        return LiveFeed(lines, self._world.clock, call_later, is_quiet=self._terminal.is_quiet)

    def _show_banner(self, ready: RunningFleet) -> None:
        if self._is_json or self._terminal.is_quiet:
            return
        fleet, terminal = self._fleet, self._terminal
        counts = self._format_counts(ready)
        name = terminal.style(f"herdbeat {__version__}", "bold")
        terminal.print(f"{name}   {fleet.name}   {counts}   {fleet.zone.key}")
        shown = self._format_location(ready)
        terminal.print(terminal.style(f"ledger in {shown}   ·   Ctrl+C stops it (runs finish first)", "dim"))
        terminal.print()
        for line in self._side_services.tour_lines():
            terminal.print(line)
        terminal.out.flush()

    def _format_counts(self, ready: RunningFleet) -> str:
        if not isinstance(ready.store.location, Path) and not self._applies:
            return describe_applied(ready.store.location)
        targets = format_count(len(self._fleet.targets), "target")
        return f"{targets}, {format_count(len(self._fleet.schedules), 'schedule')}"

    def _format_location(self, ready: RunningFleet) -> str:
        if not isinstance(ready.store.location, Path):
            return ready.store.location.display_url
        folder, state_dir = self._world.folder, ready.state_dir
        return str(state_dir.relative_to(folder) if state_dir.is_relative_to(folder) else state_dir)

    def show_stopped(self) -> None:
        if not self._is_json:
            self._terminal.info("Stopped. Nothing was cut off.")


def _parse_labels(args: tuple[str, ...]) -> tuple[str, ...]:
    """One each, or several with commas: `--label gpu --label large` is `--label gpu,large`."""
    labels = tuple(part.strip() for text in args for part in text.split(","))
    if not all(labels):
        raise UsageError("A label cannot be empty.", hint="Write a word, for example --label gpu.")
    return labels


def _resolve_no_workers(fleet: Fleet) -> int:
    """A node without places. Raises UsageError where it would be the only one."""
    if isinstance(store_location(fleet), Path):
        hint = "Leave --no-workers out, or keep the ledger in PostgreSQL (store: postgresql://…)."
        raise UsageError("A ledger in a file has one node, and without workers it would run nothing.", hint=hint)
    return 0


def _parse_max_concurrent(text: str | None) -> int:
    if text is None:
        return 100
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 6 and int(text) > 0):
        raise UsageError(f'--max-concurrent cannot be "{text[:20]}".', hint="Write a whole number from 1 to 99999.")
    return int(text)
