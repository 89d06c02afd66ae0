"""An event loop in a thread, for programs that have none: it begins with a `with` block and ends with it."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import Thread
from typing import Any

StopSignal = tuple[asyncio.AbstractEventLoop, asyncio.Event]


@contextmanager
def run_in_thread(context: AbstractAsyncContextManager[Any]) -> Iterator[None]:
    """Enter the asynchronous block in a thread, and leave it with this one. Raises what entering or leaving raised."""
    started: Future[StopSignal] = Future()
    stopped: Future[None] = Future()
    Thread(target=_run_thread, args=(context, started, stopped), name="herdbeat", daemon=True).start()
    loop, stop_event = started.result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop_event.set)
        stopped.result()


def _run_thread(
    context: AbstractAsyncContextManager[Any], started: "Future[StopSignal]", stopped: "Future[None]"
) -> None:
    try:
        asyncio.run(_run_until_stopped(context, started))
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked for it
        (stopped if started.done() else started).set_exception(error)
    else:
        stopped.set_result(None)


async def _run_until_stopped(context: AbstractAsyncContextManager[Any], started: "Future[StopSignal]") -> None:
    stop_event = asyncio.Event()
    async with context:
        started.set_result((asyncio.get_running_loop(), stop_event))
        await stop_event.wait()
