"""One thread, one writing connection, group commit: what queued up while the last commit ran goes into the next one."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from herdbeat.errors import StoreUnavailable
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.threads import Captured, capture

T = TypeVar("T")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)


class WriteSession(Protocol[C_co]):
    """The writer's connection to its database. Opened, used and closed in the writer's own thread."""

    def open(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def attempt(self, work: Callable[[C_co], T]) -> T:
        """Run one piece of work. If it raises, undo it alone and raise the error again."""

    def on_idle(self) -> None:
        """Called when no write is waiting: the time for periodic work of the database."""

    def close(self) -> None: ...


class _WriteRequest(NamedTuple, Generic[C]):
    """One piece of work and the promise of its result."""

    work: Callable[[C], object]
    future: Future[Any]


class Writer(Generic[C]):
    """Runs work in order, each group in one transaction. A result is returned only after its commit.

    `max_group_size` limits the requests of one group; None takes all that are queued.
    """

    def __init__(self, session: WriteSession[C], *, name: str, max_group_size: int | None = None) -> None:
        self._session = session
        self._max_group_size = max_group_size
        self._requests: SimpleQueue[_WriteRequest[C] | None] = SimpleQueue()
        self._opened: Future[None] = Future()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def open(self) -> None:
        """Open the database. Raises what went wrong there."""
        self._thread.start()
        self._opened.result()

    async def write(self, work: Callable[[C], T]) -> T:
        """Do the work in the next group; return once it is durable. Raises StoreUnavailable after `close`."""
        # Shielded: a caller that stops waiting does not cancel the request. The writer once found a cancelled one done,
        # its thread ended, and every write after it waited for ever.
        result = asyncio.wrap_future(self._submit(work))
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            # No caller waits for its error any more. Python would print one that is never retrieved, with a traceback.
            result.add_done_callback(_ignore_error)
            raise

    def write_now(self, work: Callable[[C], T]) -> T:
        """The same for callers without an event loop."""
        return self._submit(work).result()

    def close(self) -> None:
        """Finish all requests, then close."""
        self._is_closed = True
        self._requests.put(None)
        self._thread.join()

    def _submit(self, work: Callable[[C], T]) -> Future[T]:
        """Raises StoreUnavailable after `close`: no thread is left for the work, and its caller would wait for ever."""
        if self._is_closed:
            raise StoreUnavailable("The store is closed.", hint="Open it again.")
        future: Future[T] = Future()
        self._requests.put(_WriteRequest(work, future))
        return future

    def _run(self) -> None:
        opening = capture(self._session.open)
        if opening.error is not None:
            self._opened.set_exception(opening.error)
            return
        self._opened.set_result(None)
        while group := self._next_group():
            self._complete_group(group)
            if self._requests.empty():
                self._session.on_idle()
        self._session.close()

    def _next_group(self) -> list[_WriteRequest[C]]:
        """Wait for one request, then take all that are queued. Empty means stop."""
        first = self._requests.get()
        group = [first] if first else []
        while first and len(group) != self._max_group_size:
            try:
                request = self._requests.get_nowait()
            except Empty:
                break
            if request is None:
                self._requests.put(None)
                break
            group.append(request)
        return group

    def _complete_group(self, group: list[_WriteRequest[C]]) -> None:
        commit = capture(partial(self._commit_group, group))
        results = commit.value
        if commit.error is not None:  # nothing of the group is durable: every caller gets the reason
            self._session.rollback()
            results = [commit] * len(group)
        for request, result in zip(group, results, strict=True):
            if result.error is not None:
                request.future.set_exception(result.error)
            else:
                request.future.set_result(result.value)

    def _commit_group(self, group: list[_WriteRequest[C]]) -> list[Captured]:
        self._session.begin()
        results = [self._attempt(request) for request in group]
        failpoint(Failpoint.BEFORE_COMMIT)
        self._session.commit()
        failpoint(Failpoint.AFTER_COMMIT)
        return results

    def _attempt(self, request: _WriteRequest[C]) -> Captured:
        """Keep the error of one request from its neighbours. Raises StoreUnavailable: it ends the whole transaction."""
        result = capture(partial(self._session.attempt, request.work))
        if isinstance(result.error, StoreUnavailable):
            raise result.error
        return result


def _ignore_error(result: "asyncio.Future[Any]") -> None:
    if not result.cancelled():
        result.exception()
