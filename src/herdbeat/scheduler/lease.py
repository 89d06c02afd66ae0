"""A node's hold on what it has claimed, where several share a ledger: until when it may go on without a word.

Reckoned by CLOCK_BOOTTIME, which nobody can put back, and which goes on while the machine sleeps. The store counts the
same lease by its own clock, and begins later than we do: so what we take for over may still be ours, never the reverse.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from herdbeat.scheduler.timer import Timer

STOP_AT = 2 / 3
"""Of the lease: then the runs are ended, so that they are gone when somebody else may start in their place."""

Renewed = Callable[[timedelta], None]
"""Told how much of the lease is left."""


def nobody_to_tell(left: timedelta) -> None:
    """For who has no children."""


class Lease:
    """Begins with the first renewal."""

    def __init__(self, lasts: timedelta, timer: Timer, renewed: Renewed = nobody_to_tell) -> None:
        self._lasts = lasts
        self._timer = timer
        self._tell = renewed
        self._held_since = 0.0
        self.is_lost = asyncio.Event()

    def uptime(self) -> float:
        """To be asked before a renewal is sent."""
        return self._timer.pulse().boottime

    def begin(self, asked_at: float) -> None:
        """As a new node."""
        self.is_lost.clear()
        self.renew(asked_at)

    def renew(self, asked_at: float) -> None:
        """The store has said yes to what was asked then."""
        self._held_since = asked_at
        self._tell(self._lasts - timedelta(seconds=self.uptime() - asked_at))

    def is_held(self) -> bool:
        """Looked at again right before anything is started."""
        return not self.is_lost.is_set() and self._left() > 0

    def lose(self) -> None:
        self.is_lost.set()

    async def watch(self) -> None:
        """Until it is lost: because somebody says so, or because nothing was heard for too long."""
        while not self.is_lost.is_set() and (left := self._left()) > 0:
            await self._timer.sleep_until(self._timer.now() + timedelta(seconds=left), self.is_lost)
        self.is_lost.set()

    def _left(self) -> float:
        return self._held_since + self._lasts.total_seconds() * STOP_AT - self.uptime()
