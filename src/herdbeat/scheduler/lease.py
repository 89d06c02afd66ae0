"""A node's hold on what it has claimed, where several share a ledger: until when it may go on without a word.

Reckoned by CLOCK_BOOTTIME, which nobody can put back, and which goes on while the machine sleeps. The store counts the
same lease by its own clock, and begins later than we do: so what we take for over may still be ours, never the reverse.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from herdbeat.scheduler.timer import Timer

LEASE_STOP_FRACTION = 2 / 3
"""Of the lease: then the runs are ended, so that they are gone when somebody else may start in their place."""

OnLeaseRenewed = Callable[[timedelta], None]
"""Told how much of the lease is left."""


def ignore_renewal(remaining: timedelta) -> None:
    """For who has no children."""


class Lease:
    """Begins with the first renewal."""

    def __init__(self, duration: timedelta, timer: Timer, on_renewed: OnLeaseRenewed = ignore_renewal) -> None:
        self._duration = duration
        self._timer = timer
        self._on_renewed = on_renewed
        self._renewed_at = 0.0
        self.lease_lost = asyncio.Event()

    def uptime(self) -> float:
        """To be asked before a renewal is sent."""
        return self._timer.pulse().boottime

    def begin(self, sent_at: float) -> None:
        """As a new node."""
        self.lease_lost.clear()
        self.renew(sent_at)

    def renew(self, sent_at: float) -> None:
        """The store has said yes to what was asked then."""
        self._renewed_at = sent_at
        self._on_renewed(self._duration - timedelta(seconds=self.uptime() - sent_at))

    def is_held(self) -> bool:
        """Looked at again right before anything is started."""
        return not self.lease_lost.is_set() and self._remaining_s() > 0

    def mark_lost(self) -> None:
        self.lease_lost.set()

    async def wait_lost(self) -> None:
        """Until it is lost: because somebody says so, or because nothing was heard for too long."""
        while not self.lease_lost.is_set() and (remaining := self._remaining_s()) > 0:
            await self._timer.sleep_until(self._timer.now() + timedelta(seconds=remaining), self.lease_lost)
        self.lease_lost.set()

    def _remaining_s(self) -> float:
        return self._renewed_at + self._duration.total_seconds() * LEASE_STOP_FRACTION - self.uptime()
