"""One thread, one writing connection, group commit: what queued up while the last commit ran goes into the next one."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from herdbeat.crashpoints import CrashPoint, pass_by
from herdbeat.errors import StoreUnavailable

T = TypeVar("T")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)


class Session(Protocol[C_co]):
    """How the writer talks to its database. Opened, used and closed in the writer's own thread."""

    def open(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def attempt(self, work: Callable[[C_co], T]) -> T:
        """Run one piece of work; if it raises, undo it alone and let the error through."""
        ...

    def tidy(self) -> None:
        """Nobody waits at this moment: the time for what the database has to do now and then."""
        ...

    def close(self) -> None: ...


class _Order(Generic[C]):
    """One piece of work and the promise of its result."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[C], object]) -> None:
        self.work = work
        self.future: Future[object] = Future()


class Writer(Generic[C]):
    """Runs work in order, each group in one transaction. A result is handed out only after its commit.

    `most` is how many orders one group may have; None for as many as there are.
    """

    def __init__(self, session: Session[C], *, name: str, most: int | None = None) -> None:
        self._session = session
        self._most = most
        self._orders: SimpleQueue[_Order[C] | None] = SimpleQueue()
        self._opened: Future[None] = Future()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Open the database; what goes wrong there is raised here."""
        self._thread.start()
        self._opened.result()

    async def write(self, work: Callable[[C], T]) -> T:
        """Do the work in the next group; returns once it is durable. Raises StoreUnavailable once it is closed."""
        order = self._ordered(work)
        # Shielded: who stops waiting does not take the order back. A cancelled one, found done by the writer, ended its
        # thread, and every write after it waited for ever.
        return await asyncio.shield(asyncio.wrap_future(order.future))  # type: ignore[arg-type]

    def write_now(self, work: Callable[[C], T]) -> T:
        """The same for callers without an event loop."""
        order = self._ordered(work)
        return order.future.result()  # type: ignore[return-value]

    def stop(self) -> None:
        """Finish what was ordered, then close."""
        self._is_closed = True
        self._orders.put(None)
        self._thread.join()

    def _ordered(self, work: Callable[[C], T]) -> _Order[C]:
        """Nobody is there any more to do what is ordered from a closed store: its results were waited for for ever."""
        if self._is_closed:
            raise StoreUnavailable("The store was closed.", hint="Open it again.")
        order = _Order[C](work)
        self._orders.put(order)
        return order

    def _serve(self) -> None:
        try:
            self._session.open()
        except BaseException as error:  # noqa: BLE001 - the caller of start() must see it, whatever it is
            self._opened.set_exception(error)
            return
        self._opened.set_result(None)
        while group := self._next_group():
            self._commit_group(group)
            if self._orders.empty():
                self._session.tidy()
        self._session.close()

    def _next_group(self) -> list[_Order[C]]:
        """Wait for one order, then take all that are there. Empty means stop."""
        first = self._orders.get()
        group = [first] if first else []
        while first and len(group) != self._most:
            try:
                order = self._orders.get_nowait()
            except Empty:
                break
            if order is None:
                self._orders.put(None)
                break
            group.append(order)
        return group

    def _commit_group(self, group: list[_Order[C]]) -> None:
        try:
            self._session.begin()
            results = [self._attempt(order) for order in group]
            pass_by(CrashPoint.BEFORE_COMMIT)
            self._session.commit()
            pass_by(CrashPoint.AFTER_COMMIT)
        except Exception as error:  # noqa: BLE001 - nobody's work is durable: everybody hears why
            self._session.rollback()
            for order in group:
                order.future.set_exception(error)
            return
        for order, result in zip(group, results, strict=True):
            if isinstance(result, _Failed):
                order.future.set_exception(result.error)
            else:
                order.future.set_result(result)

    def _attempt(self, order: _Order[C]) -> object:
        try:
            return self._session.attempt(order.work)
        except StoreUnavailable:
            raise  # the transaction is gone, and with it everybody's work
        except Exception as error:  # noqa: BLE001 - one bad order must not take its neighbours with it
            return _Failed(error)


class _Failed:
    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error
