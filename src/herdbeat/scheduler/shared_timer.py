"""The time of the store as a clock of this node: all nodes agree on it, however wrong their own clocks are."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from herdbeat.scheduler.pulse import ClockReading
from herdbeat.scheduler.timer import Timer

log = logging.getLogger(__name__)

CLOCK_SAMPLES = 3
CLOCK_SKEW_WARNING = timedelta(seconds=2)
CLOCK_DRIFT_RATE = 0.0001
"""Seconds by which a measurement loses worth with every second: two clocks drift apart."""


class DatabaseTimer:
    """Ours, moved to the store's. Between two measurements it goes by CLOCK_BOOTTIME, so that nobody who sets the
    clock of this machine can move it."""

    def __init__(self, local: Timer, query_time: Callable[[], datetime]) -> None:
        self._local = local
        self._query_time = query_time
        self._boot_time = local.now() - timedelta(seconds=local.pulse().boottime)
        self._error = float("inf")
        self._measured_at = local.pulse().boottime
        self._has_warned = False

    def now(self) -> datetime:
        return self._boot_time + timedelta(seconds=self._local.pulse().boottime)

    def pulse(self) -> ClockReading:
        local = self._local.pulse()
        return ClockReading(self._boot_time + timedelta(seconds=local.boottime), local.monotonic, local.boottime)

    async def sleep_until(self, moment: datetime, wake_event: asyncio.Event) -> None:
        await self._local.sleep_until(self._local.now() + (moment - self.now()), wake_event)

    async def measure(self) -> None:
        """Ask a few times, and believe the quickest answer: its way was the shortest. Raises StoreUnavailable."""
        for _ in range(CLOCK_SAMPLES):
            sent_at = self._local.pulse().boottime
            server_time = await asyncio.to_thread(self._query_time)
            received_at = self._local.pulse().boottime
            self._accept_sample(server_time, sent_at, received_at)
        self._warn_once()

    def _accept_sample(self, server_time: datetime, sent_at: float, received_at: float) -> None:
        error = received_at - sent_at
        boot_time = server_time - timedelta(seconds=(sent_at + received_at) / 2)
        aged_error = self._error + (received_at - self._measured_at) * CLOCK_DRIFT_RATE
        has_jumped = (
            abs(boot_time - self._boot_time) > timedelta(seconds=error + aged_error + 1) if self._error < 1e9 else True
        )
        if error <= aged_error or has_jumped:
            self._boot_time, self._error, self._measured_at = boot_time, error, received_at

    def _warn_once(self) -> None:
        skew = self._local.now() - self.now()
        if abs(skew) > CLOCK_SKEW_WARNING and not self._has_warned:
            self._has_warned = True
            direction = "ahead of" if skew > timedelta(0) else "behind"
            log.warning(
                "clock differs seconds=%.1f this machine is %s the database, whose time is used",
                abs(skew).total_seconds(),
                direction,
            )
