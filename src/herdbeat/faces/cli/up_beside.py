"""What runs beside the fleet of `herdbeat up`: the demo's endpoints, and the watch over its files."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from herdbeat.app import load_config
from herdbeat.config import LoadResult
from herdbeat.domain.fleet import Fleet
from herdbeat.events import EventListener
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.up_demo import DemoFleet, open_demo
from herdbeat.faces.cli.world import Context
from herdbeat.faces.local.files_desk import FleetHandlers
from herdbeat.faces.local.server import RequestHandler
from herdbeat.serve import RunningFleet
from herdbeat.service.reloading import ConfigWatcher


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
