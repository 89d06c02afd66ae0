"""The time of the store as a clock of this node: all nodes agree on it, however wrong their own clocks are."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from herdbeat.scheduler.pulse import Reading
from herdbeat.scheduler.timer import Timer

log = logging.getLogger(__name__)

SAMPLES = 3
WORTH_TELLING = timedelta(seconds=2)
AGES = 0.0001
"""Seconds by which a measurement loses worth with every second: two clocks drift apart."""


class SharedTimer:
    """Ours, moved to the store's. Between two measurements it goes by CLOCK_BOOTTIME, so that nobody who sets the
    clock of this machine can move it."""

    def __init__(self, own: Timer, ask: Callable[[], datetime]) -> None:
        self._own = own
        self._ask = ask
        self._at_boot = own.now() - timedelta(seconds=own.pulse().boottime)
        self._doubt = float("inf")
        self._measured_at = own.pulse().boottime
        self._has_told = False

    def now(self) -> datetime:
        return self._at_boot + timedelta(seconds=self._own.pulse().boottime)

    def pulse(self) -> Reading:
        own = self._own.pulse()
        return Reading(self._at_boot + timedelta(seconds=own.boottime), own.monotonic, own.boottime)

    async def sleep_until(self, moment: datetime, woken: asyncio.Event) -> None:
        await self._own.sleep_until(self._own.now() + (moment - self.now()), woken)

    async def measure(self) -> None:
        """Ask a few times, and believe the quickest answer: its way was the shortest. Raises StoreUnavailable."""
        for _ in range(SAMPLES):
            asked_at = self._own.pulse().boottime
            told = await asyncio.to_thread(self._ask)
            answered_at = self._own.pulse().boottime
            self._weigh(told, asked_at, answered_at)
        self._tell_once()

    def _weigh(self, told: datetime, asked_at: float, answered_at: float) -> None:
        doubt = answered_at - asked_at
        at_boot = told - timedelta(seconds=(asked_at + answered_at) / 2)
        aged = self._doubt + (answered_at - self._measured_at) * AGES
        is_moved = abs(at_boot - self._at_boot) > timedelta(seconds=doubt + aged + 1) if self._doubt < 1e9 else True
        if doubt <= aged or is_moved:
            self._at_boot, self._doubt, self._measured_at = at_boot, doubt, answered_at

    def _tell_once(self) -> None:
        apart = self._own.now() - self.now()
        if abs(apart) > WORTH_TELLING and not self._has_told:
            self._has_told = True
            where = "ahead of" if apart > timedelta(0) else "behind"
            log.warning(
                "clock differs seconds=%.1f this machine is %s the database, whose time is used",
                abs(apart).total_seconds(),
                where,
            )
