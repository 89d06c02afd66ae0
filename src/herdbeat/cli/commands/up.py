"""`herdbeat up`: run the fleet in the foreground until it is stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat import __version__
from herdbeat.bootstrap.config import build_empty_load_result, load_config
from herdbeat.bootstrap.fleet import RunningFleet, control_socket, end_task, running_fleet
from herdbeat.bootstrap.handle import build_handle, is_answering_ping
from herdbeat.bootstrap.log_output import LogFormat
from herdbeat.bootstrap.server_process import ServerSupervisor
from herdbeat.cli import spec as flags
from herdbeat.cli.commands.demo import DemoFleet, open_demo
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files, load_fleet_without_files
from herdbeat.cli.log_setup import choose_format, hold_messages, open_log, run_logged, with_json
from herdbeat.cli.output.background import background_output
from herdbeat.cli.output.errors import problem_lines
from herdbeat.cli.output.live import JsonFeed, LiveFeed, LiveLineFormatter, show_event
from herdbeat.cli.output.plan import summarize_plan
from herdbeat.cli.output.render import ErrorLine, Output
from herdbeat.cli.output.terminal import Terminal, display_width, format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.cli.server_start import BoundServer, bind_server, wants_server
from herdbeat.demo.fleet import serve_endpoints
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Conflict, SchedulerShutdownError, UsageError
from herdbeat.events import ServerReady
from herdbeat.platform import handle_stop_signals, tune_interpreter
from herdbeat.service.commands.base import Actor
from herdbeat.service.commands.fleet import preview_apply
from herdbeat.service.config_watch import ConfigWatcher

if TYPE_CHECKING:
    from herdbeat.bootstrap.config import LoadResult


EXIT_INTERRUPTED = 130
LOCK_TIMEOUT_S = 5.0
"""Seconds to wait for a command that writes into the same ledger for a moment."""

_MAX_LABEL_WIDTH = 32
NOTHING_APPLIED = (
    "No configuration has been applied to this database yet, so nothing runs. Apply these files: herdbeat apply"
)


def describe_unapplied(context: Context, fleet: Fleet) -> str:
    """How the files differ from what was applied; empty if they do not, or if a file is the ledger."""
    handle = build_handle(fleet, context.clock)
    if not handle.is_shared:
        return ""
    handle = handle.use_ledger_clock()
    plan = preview_apply(handle.path, fleet, handle.now) if handle.has_ledger else None
    if plan is None or not plan.stored.schedules:
        return NOTHING_APPLIED
    if not plan.items:
        return ""
    return (
        f"These files differ from the applied configuration: {summarize_plan(plan, 'to')} Nodes run the applied one.\n"
        "Show the changes: herdbeat apply --dry-run   Apply them: herdbeat apply"
    )


def run_up(args: ParsedArgs, context: Context) -> Output:
    demo = open_demo(args, context)
    (reading, fleet), held = hold_messages(context, partial(_load_fleet, _config_path(args, demo)))
    log_format = choose_format(args, context, fleet)
    with (
        background_output(context.terminal) as terminal,
        open_log(replace(context, terminal=terminal), log_format) as logged,
    ):
        logged.terminal.err.write(held)
        if log_format is LogFormat.TEXT:
            return _run_fleet(args, logged, demo, reading, fleet)
        return run_logged(lambda: _run_fleet(with_json(args), logged, demo, reading, fleet))


def _run_fleet(
    args: ParsedArgs, context: Context, demo: DemoFleet | None, reading: "LoadResult", fleet: Fleet
) -> Output:
    is_hopeless = bool(reading.errors) and not fleet.schedules
    if is_hopeless and args.has(flags.JSON):
        raise ConfigError(reading.errors)
    plain_terminal = Terminal(out=context.terminal.err, err=context.terminal.err)
    for line in (line for each in reading.errors for line in problem_lines(plain_terminal, each, reading.sources)):
        plain_terminal.print(line)
    if is_hopeless:
        # An empty fleet is never intended, and it would remove the last good one from the ledger.
        line = ErrorLine("No valid schedule is left to run. Nothing was changed.")
        return Output(lines=[line], exit_status=ConfigError.exit_status)
    differs = "" if args.has(flags.APPLY) else describe_unapplied(context, fleet)
    if differs not in ("", NOTHING_APPLIED):  # where nothing was applied, the start is refused with the same words
        context.terminal.info(differs)
    if reading.errors:
        context.terminal.info(
            "Until the files are fixed, nothing is removed, and schedules with errors keep their last valid version."
        )
    max_concurrent = _parse_max_concurrent(args, is_shared=build_handle(fleet, context.clock).is_shared)
    labels = _parse_labels(args.all_values(flags.LABEL))
    config, has_files = _config_path(args, demo), bool(fleet.files)
    server = bind_server(fleet, config, args, context, has_files=has_files) if wants_server(args, context) else None
    session = UpSession(args, context, fleet, reading, demo, max_concurrent, labels, server)
    try:
        asyncio.run(session.run())
    except SchedulerShutdownError as error:
        rest = "" if error.unwritten_result_count else " They are recorded as interrupted."
        status = EXIT_INTERRUPTED if session.was_cut_off else error.exit_status
        return Output(lines=[ErrorLine(f"{error.message}{rest}")], exit_status=status)
    except asyncio.CancelledError:
        return Output(lines=[ErrorLine("Stopped before the fleet has started.")], exit_status=EXIT_INTERRUPTED)
    return Output(notices=[] if args.has(flags.JSON) else ["Stopped. No runs were interrupted."])


def _load_fleet(config: str | None, context: Context) -> "tuple[LoadResult, Fleet]":
    """The files; or no files, and a ledger with what `create` has made. Raises ConfigError if there is neither."""
    if (fleet := load_fleet_without_files(config, context)) is not None:
        return build_empty_load_result(fleet), fleet
    return load_fleet_files(config, context)


@dataclass(slots=True)
class UpSession:
    """One call of `up`, from its banner to its last line. `reading` is what the files said at the start."""

    args: ParsedArgs
    context: Context
    fleet: Fleet
    reading: "LoadResult"
    demo: DemoFleet | None
    max_concurrent: int
    labels: tuple[str, ...]
    server: BoundServer | None = None
    was_cut_off: bool = False
    _running: RunningFleet | None = None
    _is_stopping: bool = False
    _starting: "asyncio.Task[None] | None" = None

    async def run(self) -> None:
        """Raises SchedulerShutdownError if runs were cut off, Conflict if another process runs this fleet."""
        loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        handle_stop_signals(loop, self._on_signal)
        feed = self._build_feed(loop.call_later)
        deadline = loop.time() + LOCK_TIMEOUT_S
        while True:
            try:
                return await self._serve_fleet(feed)
            except Conflict:
                # A command that writes holds the lock for a moment; a process that answers holds it for good.
                if loop.time() > deadline or self._is_already_running():
                    raise
                await asyncio.sleep(0.1)

    async def _serve_fleet(self, feed: "LiveFeed | JsonFeed") -> None:
        opened = running_fleet(
            self.fleet,
            environ=self.context.environ,
            folder=self.context.folder,
            listener=partial(show_event, feed, self.context.terminal),
            max_concurrent=self.max_concurrent,
            labels=self.labels,
            apply_config=self.args.has(flags.APPLY),
            server_url=self.server.local_url if self.server is not None else "",
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
        """What runs beside the fleet: the server, the endpoints of the demo, and the watch over the files.

        Nodes that share a store take what they run from `apply`, not from their files.
        """
        async with AsyncExitStack() as stack:
            if self.demo is not None:
                await stack.enter_async_context(serve_endpoints(self.demo.socket))
            if self.server is not None:
                supervisor = ServerSupervisor(self.server.spec, partial(self._on_server_ready, running))
                serving = asyncio.create_task(supervisor.run(), name="server supervisor")
                stack.push_async_callback(end_task, serving)
            if not isinstance(running.store.location, Path):
                yield []
                return
            watch = asyncio.create_task(self._build_watcher(running).run(), name="config watcher")
            stack.push_async_callback(end_task, watch)
            yield [watch]

    def _on_server_ready(self, running: RunningFleet) -> None:
        """Tell listeners, and the terminal once: a restarted server has the same address."""
        assert self.server is not None
        running.listener(ServerReady(running.clock.now(), self.server.url))

    def _build_watcher(self, running: RunningFleet) -> ConfigWatcher:
        context = self.context
        read = partial(load_config, _config_path(self.args, self.demo), context.environ, context.folder)
        apply = partial(running.apply, Actor(name="files"))
        record = running.record_rejection
        watcher = ConfigWatcher(self.fleet, context.folder, read, apply, running.listener, context.clock, record)
        watcher.start_watching(self.reading)
        return watcher

    def _on_ready(self, running: RunningFleet, feed: "LiveFeed | JsonFeed") -> None:
        self._running = running
        if isinstance(feed, LiveFeed):
            feed.use_clock(running.clock)
            self._show_banner(running)
        tune_interpreter()
        if self._is_stopping:
            running.node.stop(self.fleet.stop_timeout)

    def _on_signal(self) -> None:
        """The first signal lets runs finish, the second cuts them off, or a start that waits for the ledger."""
        node = None if self._running is None else self._running.node
        if self._is_stopping:
            self.was_cut_off = True
            if node is not None:
                node.hard_stop()
            elif self._starting is not None:
                self._starting.cancel()
            return
        self._is_stopping = True
        if node is None:
            self.context.terminal.info("Stopping. Press Ctrl+C again to stop immediately.")
            return
        timeout = self.fleet.stop_timeout
        node.stop(timeout)
        if node.loop and (running := len(node.loop.active_runs)):
            runs = f"waiting up to {timeout.total_seconds():g}s for {format_count(running, 'active run')}"
            self.context.terminal.info(f"Stopping: {runs}. Press Ctrl+C again to interrupt them.")

    def _is_already_running(self) -> bool:
        return is_answering_ping(build_handle(self.fleet, self.context.clock).state_dir, timeout=1.0)

    def _build_feed(self, call_later: Callable[..., object]) -> "LiveFeed | JsonFeed":
        terminal = self.context.terminal
        names = [display_width(each.label) for each in self.fleet.schedules]
        label_width = min(max(names, default=0), _MAX_LABEL_WIDTH)
        lines = LiveLineFormatter(terminal=terminal, zone=self.fleet.zone, label_width=label_width)
        if self.args.has(flags.JSON):
            return JsonFeed(terminal)
        return LiveFeed(lines, self.context.clock, call_later, is_quiet=terminal.is_quiet)

    def _show_banner(self, running: RunningFleet) -> None:
        fleet, terminal = self.fleet, self.context.terminal
        if terminal.is_quiet:
            return
        name = terminal.style(f"herdbeat {__version__}", "bold")
        terminal.print(f"{name}   {fleet.name}   {self._format_counts(running)}   {fleet.zone.key}")
        shown = self._format_location(running)
        terminal.print(terminal.style(f"ledger: {shown}   ·   Ctrl+C stops it (active runs finish first)", "dim"))
        for line in self.server.lines() if self.server is not None else ():
            terminal.print(terminal.style(line, "dim"))
        terminal.print()
        for line in self.demo.tour_lines(self.context) if self.demo is not None else ():
            terminal.print(line)
        terminal.out.flush()

    def _format_counts(self, running: RunningFleet) -> str:
        fleet = self.fleet
        with closing(build_handle(fleet, self.context.clock).open_reader()) as reader:
            stored = reader.count_all_schedules()
        if not isinstance(running.store.location, Path) and not self.args.has(flags.APPLY):
            return f"{format_count(stored, 'schedule')} applied"
        counts = f"{format_count(len(fleet.targets), 'target')}, {format_count(len(fleet.schedules), 'schedule')}"
        created = 0 if self.reading.errors else stored - len(fleet.schedules)
        return f"{counts}, and {format_count(created, 'schedule')} without a file" if created > 0 else counts

    def _format_location(self, running: RunningFleet) -> str:
        if not isinstance(running.store.location, Path):
            return running.store.location.display_url
        folder, state_dir = self.context.folder, running.state_dir
        return str(state_dir.relative_to(folder) if state_dir.is_relative_to(folder) else state_dir)


def _config_path(args: ParsedArgs, demo: DemoFleet | None) -> str | None:
    return args.value(flags.CONFIG) if demo is None else str(demo.file)


def _parse_labels(args: tuple[str, ...]) -> tuple[str, ...]:
    """One each, or several with commas: `--label gpu --label large` is `--label gpu,large`."""
    labels = tuple(part.strip() for text in args for part in text.split(","))
    if not all(labels):
        raise UsageError("A label cannot be empty.", hint="Give a label, for example --label gpu.")
    return labels


def _parse_max_concurrent(args: ParsedArgs, *, is_shared: bool) -> int:
    """How many runs at once, 0 for a node without workers. Raises UsageError where that would be the only node."""
    text = args.value(flags.MAX_CONCURRENT)
    if text is not None and not (text.isascii() and text.isdecimal() and 0 < len(text) < 6 and int(text) > 0):
        raise UsageError(f'--max-concurrent cannot be "{text[:20]}".', hint="Use a whole number from 1 to 99999.")
    if not args.has(flags.NO_WORKERS):
        return 100 if text is None else int(text)
    if not is_shared:
        hint = "Omit --no-workers, or use a PostgreSQL ledger (store: postgresql://…)."
        raise UsageError(
            "--no-workers requires a PostgreSQL ledger: with SQLite there is only one node, and nothing would run.",
            hint=hint,
        )
    return 0
