"""`herdbeat up`: the fleet at work in the foreground, until somebody stops it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from herdbeat import __version__
from herdbeat.collector import look_less_often
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Conflict, SchedulerShutdownError, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.fleets import read
from herdbeat.faces.cli.live import LiveLines
from herdbeat.faces.cli.live_feed import JsonFeed, LiveFeed
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.problems import show_problem
from herdbeat.faces.cli.terminal import Terminal, width
from herdbeat.faces.cli.up_beside import Beside, open_beside
from herdbeat.faces.cli.up_shared import NOTHING, applied_words, unapplied_words
from herdbeat.faces.cli.world import World
from herdbeat.faces.local.client import NobodyThere, ask
from herdbeat.faces.local.desk import Desk
from herdbeat.faces.local.reachable import serve_reachable
from herdbeat.faces.local.server import Handler
from herdbeat.scheduler.node import ServingNode
from herdbeat.serve import Ready, serve
from herdbeat.store.places import ledger_of, state_dir_of

INTERRUPTED = 130
PATIENCE = 5.0
"""Seconds to wait for a command that is just writing into the same ledger."""

_WIDEST_NAME = 32


def run(given: Given, world: World) -> int:
    beside = open_beside(given, world)
    reading, fleet = read(beside.config, world)
    is_hopeless = bool(reading.errors) and not fleet.schedules
    if is_hopeless and given.has(flags.JSON):
        raise ConfigError(reading.errors)
    for problem in reading.errors:
        show_problem(Terminal(out=world.terminal.err, err=world.terminal.err), problem, reading.sources)
    if is_hopeless:
        # An empty fleet is not what anybody meant; and it would take the last good one out of the ledger.
        world.terminal.complain("Nothing is left that could run. Nothing was changed.")
        return ConfigError.exit_status
    differs = "" if given.has(flags.APPLY) else unapplied_words(fleet, world)
    if differs not in ("", NOTHING):  # where nothing was applied, the start is refused with the same words
        world.terminal.remark(differs)
    if reading.errors:
        world.terminal.remark("Until that is mended nothing is removed: what was right before goes on as it was.")
    most = _max_concurrent(given.value(flags.MAX_CONCURRENT))
    labels = _labels(given.every_value(flags.LABEL))
    if given.has(flags.NO_WORKERS):
        most = _no_workers(fleet)
    beside = replace(beside, reading=reading)
    session = Session(
        fleet,
        world,
        beside,
        is_json=given.has(flags.JSON),
        max_concurrent=most,
        labels=labels,
        applies=given.has(flags.APPLY),
    )
    try:
        asyncio.run(session.run())
    except SchedulerShutdownError as error:
        rest = "" if error.unwritten_result_count else " The ledger has what was cut off as interrupted."
        world.terminal.complain(f"{error.message}{rest}")
        return INTERRUPTED if session.was_cut_off else error.exit_status
    session.farewell()
    return 0


class Session:
    """One call of `up`, from its banner to its last word."""

    def __init__(
        self,
        fleet: Fleet,
        world: World,
        beside: Beside,
        *,
        is_json: bool,
        max_concurrent: int,
        labels: tuple[str, ...] = (),
        applies: bool = False,
    ) -> None:
        self._fleet = fleet
        self._world = world
        self._beside = beside
        self._terminal = world.terminal
        self._is_json = is_json
        self._max_concurrent = max_concurrent
        self._labels = labels
        self._applies = applies
        self._node: ServingNode | None = None
        self._is_stopping = False
        self.was_cut_off = False

    async def run(self) -> None:
        """Raises SchedulerShutdownError if runs were cut off, Conflict if another process runs this fleet."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        feed = self._feed(loop.call_later)
        deadline = loop.time() + PATIENCE
        while True:
            try:
                await self._serve(feed)
            except Conflict:
                # A command that writes holds the lock for a blink; a herdbeat that answers holds it for good.
                if loop.time() > deadline or self._is_answered():
                    raise
                await asyncio.sleep(0.1)
            else:
                break

    async def _serve(self, feed: "LiveFeed | JsonFeed") -> None:
        def serving(on_ready: Callable[[Ready], None]) -> Awaitable[None]:
            return serve(
                self._fleet,
                environ=self._world.environ,
                on_ready=on_ready,
                listener=feed,
                max_concurrent=self._max_concurrent,
                labels=self._labels,
                applies=self._applies,
            )

        try:
            await serve_reachable(serving, self._on_ready, partial(self._desks, feed))
        finally:
            feed.tell()

    @asynccontextmanager
    async def _desks(self, feed: "LiveFeed | JsonFeed", found: Ready) -> AsyncIterator[Mapping[str, Handler]]:
        if isinstance(feed, LiveFeed):
            feed.go_by(found.clock)
        desk = Desk(self._fleet, found, found.clock, feed)
        async with self._beside.opened(self._fleet, found, feed) as handlers:
            yield {**desk.handlers, **handlers}

    def _on_ready(self, found: Ready) -> None:
        self._node = found.node
        self._greet(found)
        look_less_often()
        if self._is_stopping:
            found.node.stop(self._fleet.stop_timeout)

    def _on_signal(self) -> None:
        """The first one asks, the second one insists."""
        if self._is_stopping:
            self.was_cut_off = True
            if self._node is not None:
                self._node.cut_off()
            return
        self._is_stopping = True
        if self._node is not None:
            self._node.stop(self._fleet.stop_timeout)
            self._say_stopping(self._node)

    def _say_stopping(self, node: ServingNode) -> None:
        running = len(node.loop.running) if node.loop else 0
        if running:
            seconds = f"{self._fleet.stop_timeout.total_seconds():g}s"
            self._terminal.remark(
                f"Stopping: {counted(running, 'run')} may finish (up to {seconds}). Ctrl+C again cuts off."
            )

    def _is_answered(self) -> bool:
        try:
            ask(state_dir_of(ledger_of(self._fleet)), {"do": "ping"}, patience=1.0)
        except NobodyThere:
            return False
        return True

    def _feed(self, later: Callable[..., object]) -> "LiveFeed | JsonFeed":
        names = [width(each.label) for each in self._fleet.schedules]
        room = min(max(names, default=0), _WIDEST_NAME)
        lines = LiveLines(terminal=self._terminal, zone=self._fleet.zone, room=room)
        if self._is_json:
            return JsonFeed(lines)
        return LiveFeed(lines, self._world.clock, later, is_quiet=self._terminal.is_quiet)

    def _greet(self, found: Ready) -> None:
        if self._is_json or self._terminal.is_quiet:
            return
        fleet, terminal = self._fleet, self._terminal
        counts = self._counts(found)
        name = terminal.style(f"herdbeat {__version__}", "bold")
        terminal.say(f"{name}   {fleet.name}   {counts}   {fleet.zone.key}")
        shown = self._shown_place(found)
        terminal.say(terminal.style(f"ledger in {shown}   ·   Ctrl+C stops it (runs finish first)", "dim"))
        terminal.say()
        for line in self._beside.tour():
            terminal.say(line)
        terminal.out.flush()

    def _counts(self, found: Ready) -> str:
        if not isinstance(found.store.place, Path) and not self._applies:
            return applied_words(found.store.place)
        return f"{counted(len(self._fleet.targets), 'target')}, {counted(len(self._fleet.schedules), 'schedule')}"

    def _shown_place(self, found: Ready) -> str:
        if not isinstance(found.store.place, Path):
            return found.store.place.shown
        folder, state_dir = self._world.folder, found.state_dir
        return str(state_dir.relative_to(folder) if state_dir.is_relative_to(folder) else state_dir)

    def farewell(self) -> None:
        if not self._is_json:
            self._terminal.remark("Stopped. Nothing was cut off.")


def _labels(given: tuple[str, ...]) -> tuple[str, ...]:
    """One each, or several with commas: `--label gpu --label large` is `--label gpu,large`."""
    labels = tuple(part.strip() for text in given for part in text.split(","))
    if not all(labels):
        raise UsageError("A label cannot be empty.", hint="Write a word, for example --label gpu.")
    return labels


def _no_workers(fleet: Fleet) -> int:
    """A node without places. Raises UsageError where it would be the only one."""
    if isinstance(ledger_of(fleet), Path):
        hint = "Leave --no-workers out, or keep the ledger in PostgreSQL (store: postgresql://…)."
        raise UsageError("A ledger in a file has one node, and without workers it would run nothing.", hint=hint)
    return 0


def _max_concurrent(text: str | None) -> int:
    if text is None:
        return 100
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 6 and int(text) > 0):
        raise UsageError(f'--max-concurrent cannot be "{text[:20]}".', hint="Write a whole number from 1 to 99999.")
    return int(text)
