"""An event loop in a thread, for programs that have none: it begins with a `with` block and ends with it."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import Thread
from typing import Any

Leave = tuple[asyncio.AbstractEventLoop, asyncio.Event]


@contextmanager
def in_thread(block: AbstractAsyncContextManager[Any]) -> Iterator[None]:
    """Enter the asynchronous block in a thread, and leave it with this one. Raises what entering or leaving raised."""
    entered: Future[Leave] = Future()
    left: Future[None] = Future()
    Thread(target=_work, args=(block, entered, left), name="herdbeat", daemon=True).start()
    loop, leave = entered.result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(leave.set)
        left.result()


def _work(block: AbstractAsyncContextManager[Any], entered: "Future[Leave]", left: "Future[None]") -> None:
    try:
        asyncio.run(_stay(block, entered))
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked for it
        (left if entered.done() else entered).set_exception(error)
    else:
        left.set_result(None)


async def _stay(block: AbstractAsyncContextManager[Any], entered: "Future[Leave]") -> None:
    leave = asyncio.Event()
    async with block:
        entered.set_result((asyncio.get_running_loop(), leave))
        await leave.wait()
