"""A thread pool for blocking functions whose threads do not delay the end of the process.

Why not ThreadPoolExecutor: Python joins its threads at exit, so one function that hangs would keep the node alive.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

from herdbeat.threads import capture

T = TypeVar("T")


class DaemonThreadPool(Generic[T]):
    """At most `limit` functions run at once; further ones wait. Threads are reused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: SimpleQueue[tuple[Callable[[], T], asyncio.Future[T]] | None] = SimpleQueue()
        self._count = 0
        self._busy = 0

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Return a future of the running loop for what the function returns or raises."""
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
        """End idle threads now, and busy ones after their function."""
        for _ in range(self._count):
            self._queue.put(None)

    def _on_done(self, _: asyncio.Future[T]) -> None:
        self._busy -= 1

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            function, future = task
            captured = capture(
                function
            )  # SystemExit, too: it would end the thread and leave the run without an outcome
            if captured.error is not None:
                deliver = partial(future.set_exception, contain_error(captured.error))
            else:
                deliver = partial(future.set_result, captured.value)
            try:
                future.get_loop().call_soon_threadsafe(deliver)
            except RuntimeError:
                return  # the loop is closed, and with it everything that could wait for the result


def contain_error(error: BaseException) -> BaseException:
    """Return an exception of a user's function that is safe to raise in a run.

    KeyboardInterrupt, GeneratorExit and exceptions that derive from BaseException alone would end the node, and a
    future refuses StopIteration.
    """
    is_iteration = isinstance(error, StopIteration)
    if isinstance(error, Exception | SystemExit | asyncio.CancelledError) and not is_iteration:
        return error
    # For StopIteration these are Python's own words, as for an async function that raises it.
    described = "coroutine raised StopIteration" if is_iteration else f"the function raised {describe_raised(error)}"
    contained = RuntimeError(described)
    contained.__cause__ = error
    return contained


def describe_raised(error: BaseException) -> str:
    """Return what a user's function raised as one line. Its own `__str__` may raise, too."""
    text = "its message cannot be read"
    with suppress(Exception):
        text = str(error)
    return f"{type(error).__name__}: {text}".removesuffix(": ")
