"""What runs beside the fleet of `herdbeat up`: the demo's endpoints, and the watch over its files."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from herdbeat.app import read_configuration
from herdbeat.config import Reading
from herdbeat.domain.fleet import Fleet
from herdbeat.events import Listener
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.up_demo import Demo, open_demo
from herdbeat.faces.cli.world import World
from herdbeat.faces.local.files_desk import FilesDesk
from herdbeat.faces.local.server import Handler
from herdbeat.serve import Ready
from herdbeat.service.reloading import Reloader


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """`config` is the path that was asked for, or the demo's own; `reading` is what was found there."""

    config: str | None
    world: World
    demo: Demo | None = None
    reading: Reading | None = None

    @asynccontextmanager
    async def opened(self, fleet: Fleet, ready: Ready, listener: Listener) -> AsyncIterator[Mapping[str, Handler]]:
        """Until the block is left. What can be asked of it through the socket is what it yields."""
        world = self.world
        desk = FilesDesk(fleet, ready, ready.clock, world.environ, world.folder, listener)
        read = partial(read_configuration, self.config, world.environ, world.folder)
        reloader = Reloader(fleet, world.folder, read, desk.serve, listener, world.clock)
        assert self.reading is not None, "the files are read before the fleet is at work"
        reloader.begin(self.reading)
        async with AsyncExitStack() as stack:
            if self.demo is not None:
                await stack.enter_async_context(self.demo.beside())
            if not isinstance(ready.store.place, Path):
                yield desk.handlers  # nodes that share a store are told what to run by `apply`, not by their files
                return
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            watch = tasks.create_task(reloader.run(), name="watch over the files")
            try:
                yield desk.handlers
            finally:
                watch.cancel()

    def tour(self) -> Iterator[str]:
        if self.demo is not None:
            yield from self.demo.tour(self.world)


def open_beside(given: Given, world: World) -> Beside:
    """Raises UsageError, or Conflict if the demo runs already."""
    demo = open_demo(given, world)
    return Beside(config=given.value(flags.CONFIG) if demo is None else str(demo.file), world=world, demo=demo)
