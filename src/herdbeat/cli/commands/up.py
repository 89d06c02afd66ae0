"""`herdbeat up`: the fleet at work in the foreground, until somebody stops it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from herdbeat import __version__
from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import RunningFleet, control_socket, end_task, running_fleet, tune_gc
from herdbeat.bootstrap.handle import answers_ping
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
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Conflict, SchedulerShutdownError, UsageError
from herdbeat.scheduler.node import Node
from herdbeat.service.commands.base import Actor
from herdbeat.service.commands.fleet import preview_apply
from herdbeat.service.config_watch import ConfigWatcher
from herdbeat.store.location import StoreLocation, open_reader, resolve_state_dir, select_clock, store_location

EXIT_INTERRUPTED = 130
LOCK_TIMEOUT_S = 5.0
"""Seconds to wait for a command that writes into the same ledger for a moment."""

_MAX_LABEL_WIDTH = 32
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


def run_up(args: ParsedArgs, context: Context) -> int:
    demo = open_demo(args, context)
    config = args.value(flags.CONFIG) if demo is None else str(demo.file)
    reading, fleet = load_fleet_files(config, context)
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
    session = UpSession(
        fleet,
        context,
        FleetFiles(config=config, reading=reading),
        demo,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFiles:
    """The path of the fleet's files, as it was given or the demo's own, and what was read there at the start."""

    config: str | None
    reading: LoadResult


class UpSession:
    """One call of `up`, from its banner to its last line."""

    def __init__(
        self,
        fleet: Fleet,
        context: Context,
        files: FleetFiles,
        demo: DemoFleet | None,
        *,
        is_json: bool,
        max_concurrent: int,
        labels: tuple[str, ...] = (),
        apply_config: bool = False,
    ) -> None:
        self._fleet = fleet
        self._context = context
        self._files = files
        self._demo = demo
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
                # A command that writes holds the lock for a moment; a process that answers holds it for good.
                if loop.time() > deadline or self._is_already_running():
                    raise
                await asyncio.sleep(0.1)
            else:
                break

    async def _serve_fleet(self, feed: "LiveFeed | JsonFeed") -> None:
        opened = running_fleet(
            self._fleet,
            environ=self._context.environ,
            folder=self._context.folder,
            listener=feed,
            max_concurrent=self._max_concurrent,
            labels=self._labels,
            apply_config=self._applies,
        )
        try:
            async with opened as running:
                self._on_ready(running, feed)
                async with self._open_companions(running) as companions, control_socket(running):
                    await running.wait_stopped(*companions)
        finally:
            feed.flush()

    @asynccontextmanager
    async def _open_companions(self, running: RunningFleet) -> "AsyncIterator[list[asyncio.Task[None]]]":
        """What runs beside the fleet: the endpoints of the demo, and the watch over the files.

        Nodes that share a store take what they run from `apply`, not from their files.
        """
        async with AsyncExitStack() as stack:
            if self._demo is not None:
                await stack.enter_async_context(self._demo.serve_endpoints())
            if not isinstance(running.store.location, Path):
                yield []
                return
            watch = asyncio.create_task(self._build_watcher(running).run(), name="config watcher")
            stack.push_async_callback(end_task, watch)
            yield [watch]

    def _build_watcher(self, running: RunningFleet) -> ConfigWatcher:
        context = self._context
        read = partial(load_config, self._files.config, context.environ, context.folder)
        apply = partial(running.dispatcher.apply, Actor(name="files"))
        watcher = ConfigWatcher(self._fleet, context.folder, read, apply, running.listener, context.clock)
        watcher.start_watching(self._files.reading)
        return watcher

    def _on_ready(self, running: RunningFleet, feed: "LiveFeed | JsonFeed") -> None:
        self._node = running.node
        if isinstance(feed, LiveFeed):
            feed.use_clock(running.clock)
        self._show_banner(running)
        tune_gc()
        if self._is_stopping:
            running.node.stop(self._fleet.stop_timeout)

    def _on_signal(self) -> None:
        """The first signal lets runs finish, the second cuts them off."""
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
        return answers_ping(resolve_state_dir(store_location(self._fleet)), timeout=1.0)

    def _build_feed(self, call_later: Callable[..., object]) -> "LiveFeed | JsonFeed":
        names = [display_width(each.label) for each in self._fleet.schedules]
        label_width = min(max(names, default=0), _MAX_LABEL_WIDTH)
        lines = LiveLineFormatter(terminal=self._terminal, zone=self._fleet.zone, label_width=label_width)
        if self._is_json:
            return JsonFeed(lines)
        return LiveFeed(lines, self._context.clock, call_later, is_quiet=self._terminal.is_quiet)

    def _show_banner(self, running: RunningFleet) -> None:
        if self._is_json or self._terminal.is_quiet:
            return
        fleet, terminal = self._fleet, self._terminal
        counts = self._format_counts(running)
        name = terminal.style(f"herdbeat {__version__}", "bold")
        terminal.print(f"{name}   {fleet.name}   {counts}   {fleet.zone.key}")
        shown = self._format_location(running)
        terminal.print(terminal.style(f"ledger in {shown}   ·   Ctrl+C stops it (runs finish first)", "dim"))
        terminal.print()
        for line in self._demo.tour_lines(self._context) if self._demo is not None else ():
            terminal.print(line)
        terminal.out.flush()

    def _format_counts(self, running: RunningFleet) -> str:
        if not isinstance(running.store.location, Path) and not self._applies:
            return describe_applied(running.store.location)
        targets = format_count(len(self._fleet.targets), "target")
        return f"{targets}, {format_count(len(self._fleet.schedules), 'schedule')}"

    def _format_location(self, running: RunningFleet) -> str:
        if not isinstance(running.store.location, Path):
            return running.store.location.display_url
        folder, state_dir = self._context.folder, running.state_dir
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
