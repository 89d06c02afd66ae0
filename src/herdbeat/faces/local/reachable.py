"""A fleet at work that can be spoken to: its socket is open from the moment it is ready until it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

from herdbeat.faces.local.server import Handler, listening
from herdbeat.serve import Ready

Serving = Callable[[Callable[[Ready], None]], Awaitable[None]]
"""Serves a fleet until it is stopped, and calls what it is given once it is ready."""

Desks = Callable[[Ready], AbstractAsyncContextManager[Mapping[str, Handler]]]
"""Who answers, for as long as the block is open."""


async def serve_reachable(serving: Serving, on_ready: Callable[[Ready], None], desks: Desks) -> None:
    """Raises what `serving` raises: carried out of the group by hand, for wrapped in one nobody would know it."""
    there: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    failure: Exception | None = None

    def tell(ready: Ready) -> None:
        on_ready(ready)
        there.set_result(ready)

    async with asyncio.TaskGroup() as tasks:
        door = tasks.create_task(_keep_door(there, desks), name="local socket")
        try:
            await serving(tell)
        except Exception as error:  # noqa: BLE001 - raised again below, as it is
            failure = error
        door.cancel()
    if failure is not None:
        raise failure


async def _keep_door(there: "asyncio.Future[Ready]", desks: Desks) -> None:
    ready = await there
    async with desks(ready) as handlers, listening(ready.state_dir, handlers):
        await asyncio.Event().wait()
