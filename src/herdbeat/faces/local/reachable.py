"""A fleet at work that can be spoken to: its socket is open from the moment it is ready until it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

from herdbeat.faces.local.server import RequestHandler, open_control_socket
from herdbeat.serve import RunningFleet

ServeFleet = Callable[[Callable[[RunningFleet], None]], Awaitable[None]]
"""Serves a fleet until it is stopped, and calls what it is given once it is ready."""

OpenHandlers = Callable[[RunningFleet], AbstractAsyncContextManager[Mapping[str, RequestHandler]]]
"""Who answers, for as long as the block is open."""


async def run_with_socket(
    serve_fleet: ServeFleet, on_ready: Callable[[RunningFleet], None], open_handlers: OpenHandlers
) -> None:
    """Raises what `serving` raises: carried out of the group by hand, for wrapped in one nobody would know it."""
    ready_future: asyncio.Future[RunningFleet] = asyncio.get_running_loop().create_future()
    failure: Exception | None = None

    def notify_ready(running_fleet: RunningFleet) -> None:
        on_ready(running_fleet)
        ready_future.set_result(running_fleet)

    async with asyncio.TaskGroup() as tasks:
        socket_task = tasks.create_task(_serve_socket(ready_future, open_handlers), name="local socket")
        try:
            await serve_fleet(notify_ready)
        except Exception as error:  # noqa: BLE001 - raised again below, as it is
            failure = error
        socket_task.cancel()
    if failure is not None:
        raise failure


async def _serve_socket(ready_future: "asyncio.Future[RunningFleet]", open_handlers: OpenHandlers) -> None:
    running_fleet = await ready_future
    async with open_handlers(running_fleet) as handlers, open_control_socket(running_fleet.state_dir, handlers):
        await asyncio.Event().wait()
