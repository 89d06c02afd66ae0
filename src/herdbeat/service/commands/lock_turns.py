"""Turns at the state lock: how a server that has no node writes many changes without keeping a node from starting.

Changes that come together are written in one turn, which is short. Between two turns the lock is free for longer than
`herdbeat up` waits between its attempts. A single change that takes longer than a turn is not cut off.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

MAX_TURN_S = 0.15
"""With what the end of a turn takes on a busy machine, the lock is held for at most 200 ms."""

PAUSE_S = 1.0


@dataclass(slots=True)
class LockTurns:
    """Shared by all threads of a process. One of them writes at a time."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _waiting: int = 0
    _held: ExitStack | None = None
    _began: float = 0.0
    _free_until: float = 0.0

    @property
    def is_holding(self) -> bool:
        """Whether this process has the lock: then no node does."""
        return self._held is not None

    @contextmanager
    def hold(self, lock: AbstractContextManager[object]) -> Iterator[None]:
        """Write in the current turn, or in the next one, which takes `lock`. Raises what taking it raises."""
        self._count(1)
        with self._writing:
            self._count(-1)
            if self._held is None:
                self._begin(lock)
            began = self.monotonic()
            try:
                yield
            finally:
                now = self.monotonic()
                # The next one is taken to last as long as this one: it must end within the turn.
                if not self._waiting or now - self._began + now - began > MAX_TURN_S:
                    self._end()

    def _count(self, difference: int) -> None:
        with self._counting:
            self._waiting += difference

    def _begin(self, lock: AbstractContextManager[object]) -> None:
        self.sleep(max(0.0, self._free_until - self.monotonic()))
        with ExitStack() as stack:
            stack.enter_context(lock)
            self._held, self._began = stack.pop_all(), self.monotonic()

    def _end(self) -> None:
        assert self._held is not None
        self._held.close()
        self._held, self._free_until = None, self.monotonic() + PAUSE_S
