"""One thread, one writing connection, group commit: what queued up while the last commit ran goes into the next one."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from herdbeat.errors import StoreUnavailable
from herdbeat.failpoints import Failpoint, failpoint

T = TypeVar("T")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)


class WriteSession(Protocol[C_co]):
    """How the writer talks to its database. Opened, used and closed in the writer's own thread."""

    def open(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def attempt(self, work: Callable[[C_co], T]) -> T:
        """Run one piece of work; if it raises, undo it alone and let the error through."""
        ...

    def on_idle(self) -> None:
        """Nobody waits at this moment: the time for what the database has to do now and then."""
        ...

    def close(self) -> None: ...


class _WriteRequest(Generic[C]):
    """One piece of work and the promise of its result."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[C], object]) -> None:
        self.work = work
        self.future: Future[object] = Future()


class Writer(Generic[C]):
    """Runs work in order, each group in one transaction. A result is handed out only after its commit.

    `most` is how many orders one group may have; None for as many as there are.
    """

    def __init__(self, session: WriteSession[C], *, name: str, max_group_size: int | None = None) -> None:
        self._session = session
        self._max_group_size = max_group_size
        self._requests: SimpleQueue[_WriteRequest[C] | None] = SimpleQueue()
        self._opened: Future[None] = Future()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Open the database; what goes wrong there is raised here."""
        self._thread.start()
        self._opened.result()

    async def write(self, work: Callable[[C], T]) -> T:
        """Do the work in the next group; returns once it is durable. Raises StoreUnavailable once it is closed."""
        request = self._submit(work)
        # Shielded: who stops waiting does not take the order back. A cancelled one, found done by the writer, ended its
        # thread, and every write after it waited for ever.
        return await asyncio.shield(asyncio.wrap_future(request.future))  # type: ignore[arg-type]

    def write_now(self, work: Callable[[C], T]) -> T:
        """The same for callers without an event loop."""
        request = self._submit(work)
        return request.future.result()  # type: ignore[return-value]

    def stop(self) -> None:
        """Finish what was ordered, then close."""
        self._is_closed = True
        self._requests.put(None)
        self._thread.join()

    def _submit(self, work: Callable[[C], T]) -> _WriteRequest[C]:
        """Nobody is there any more to do what is ordered from a closed store: its results were waited for for ever."""
        if self._is_closed:
            raise StoreUnavailable("The store was closed.", hint="Open it again.")
        request = _WriteRequest[C](work)
        self._requests.put(request)
        return request

    def _run(self) -> None:
        try:
            self._session.open()
        except BaseException as error:  # noqa: BLE001 - the caller of start() must see it, whatever it is
            self._opened.set_exception(error)
            return
        self._opened.set_result(None)
        while group := self._next_group():
            self._commit_group(group)
            if self._requests.empty():
                self._session.on_idle()
        self._session.close()

    def _next_group(self) -> list[_WriteRequest[C]]:
        """Wait for one order, then take all that are there. Empty means stop."""
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

    def _commit_group(self, group: list[_WriteRequest[C]]) -> None:
        try:
            self._session.begin()
            results = [self._attempt(request) for request in group]
            failpoint(Failpoint.BEFORE_COMMIT)
            self._session.commit()
            failpoint(Failpoint.AFTER_COMMIT)
        except Exception as error:  # noqa: BLE001 - nobody's work is durable: everybody hears why
            self._session.rollback()
            for request in group:
                request.future.set_exception(error)
            return
        for request, result in zip(group, results, strict=True):
            if isinstance(result, _FailedWrite):
                request.future.set_exception(result.error)
            else:
                request.future.set_result(result)

    def _attempt(self, request: _WriteRequest[C]) -> object:
        try:
            return self._session.attempt(request.work)
        except StoreUnavailable:
            raise  # the transaction is gone, and with it everybody's work
        except Exception as error:  # noqa: BLE001 - one bad order must not take its neighbours with it
            return _FailedWrite(error)


class _FailedWrite:
    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error
