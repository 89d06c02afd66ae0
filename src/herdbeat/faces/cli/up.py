"""`herdbeat up`: the fleet at work in the foreground, until somebody stops it."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial

from herdbeat import __version__
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import Conflict, SchedulerShutdownError, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.fleets import read
from herdbeat.faces.cli.live import LiveLines
from herdbeat.faces.cli.live_feed import JsonFeed, LiveFeed
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.problems import show_problem
from herdbeat.faces.cli.terminal import Terminal, width
from herdbeat.faces.cli.world import World
from herdbeat.faces.local.client import NobodyThere, ask
from herdbeat.faces.local.desk import Desk
from herdbeat.faces.local.server import listening
from herdbeat.scheduler.node import ServingNode
from herdbeat.serve import Ready, serve
from herdbeat.store.places import ledger_path

INTERRUPTED = 130
PATIENCE = 5.0
"""Seconds to wait for a command that is just writing into the same ledger."""

_WIDEST_NAME = 32


def run(given: Given, world: World) -> int:
    reading, fleet = read(given.value(flags.CONFIG), world)
    for problem in reading.errors:
        show_problem(Terminal(out=world.terminal.err, err=world.terminal.err), problem, reading.sources)
    most = _max_concurrent(given.value(flags.MAX_CONCURRENT))
    session = Session(fleet, world, is_json=given.has(flags.JSON), max_concurrent=most)
    try:
        asyncio.run(session.run())
    except SchedulerShutdownError as error:
        world.terminal.complain(f"{error.message} The ledger has what was cut off as interrupted.")
        return INTERRUPTED if session.was_cut_off else error.exit_status
    session.farewell()
    return 0


class Session:
    """One call of `up`, from its banner to its last word."""

    def __init__(self, fleet: Fleet, world: World, *, is_json: bool, max_concurrent: int) -> None:
        self._fleet = fleet
        self._world = world
        self._terminal = world.terminal
        self._is_json = is_json
        self._max_concurrent = max_concurrent
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
        """Errors are carried out of the group by hand: wrapped in one, nobody would know them any more."""
        ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        failure: Exception | None = None
        async with asyncio.TaskGroup() as tasks:
            door = tasks.create_task(self._keep_door(ready), name="local socket")
            try:
                await serve(
                    self._fleet,
                    environ=self._world.environ,
                    on_ready=partial(self._on_ready, ready),
                    listener=feed,
                    max_concurrent=self._max_concurrent,
                )
            except Exception as error:  # noqa: BLE001 - raised again below, as it is
                failure = error
            door.cancel()
        feed.tell()
        if failure is not None:
            raise failure

    async def _keep_door(self, ready: "asyncio.Future[Ready]") -> None:
        found = await ready
        async with listening(found.state_dir, Desk(self._fleet, found, self._world.clock).handlers):
            await asyncio.Event().wait()

    def _on_ready(self, ready: "asyncio.Future[Ready]", found: Ready) -> None:
        self._node = found.node
        self._greet(found)
        ready.set_result(found)
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
            ask(ledger_path(self._fleet).parent, {"do": "ping"}, patience=1.0)
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
        counts = f"{counted(len(fleet.targets), 'target')}, {counted(len(fleet.schedules), 'schedule')}"
        name = terminal.style(f"herdbeat {__version__}", "bold")
        terminal.say(f"{name}   {fleet.name}   {counts}   {fleet.zone.key}")
        folder = self._world.folder
        inside = found.state_dir.is_relative_to(folder)
        shown = found.state_dir.relative_to(folder) if inside else found.state_dir
        terminal.say(terminal.style(f"ledger in {shown}   ·   Ctrl+C stops it (runs finish first)", "dim"))
        terminal.say()
        terminal.out.flush()

    def farewell(self) -> None:
        if not self._is_json:
            self._terminal.remark("Stopped. Nothing was cut off.")


def _max_concurrent(text: str | None) -> int:
    if text is None:
        return 100
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 6 and int(text) > 0):
        raise UsageError(f'--max-concurrent cannot be "{text[:20]}".', hint="Write a whole number from 1 to 99999.")
    return int(text)
