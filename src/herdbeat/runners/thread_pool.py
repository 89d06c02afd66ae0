"""Threads for functions that cannot be awaited. They never keep the process from ending.

Why not a ThreadPoolExecutor: Python waits for its threads at exit, so one function that hangs would hang the node.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class DaemonThreadPool(Generic[T]):
    """At most so many at once; more wait their turn. Threads are kept for the next function."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: SimpleQueue[tuple[Callable[[], T], asyncio.Future[T]] | None] = SimpleQueue()
        self._count = 0
        self._busy = 0

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """What the function returns, from a running loop. It must not raise, and nothing can stop it."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()
        self._busy += 1
        future.add_done_callback(self._on_done)
        self._queue.put((lambda: context.run(function), future))
        if self._busy > self._count < self._limit:
            self._count += 1
            threading.Thread(target=self._work, name=f"callable {self._count}", daemon=True).start()
        return future

    def close(self) -> None:
        """Let idle threads go, and busy ones when they are done."""
        for _ in range(self._count):
            self._queue.put(None)

    def _on_done(self, _: asyncio.Future[T]) -> None:
        self._busy -= 1

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            function, future = task
            result = function()
            try:
                future.get_loop().call_soon_threadsafe(future.set_result, result)
            except RuntimeError:
                return  # the loop is closed: nobody is left to hear it
