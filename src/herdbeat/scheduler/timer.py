"""Waiting for a moment. Apart from the clock, since who only asks for the time should not load an event loop."""

import asyncio
import time
from datetime import datetime
from typing import Protocol

from herdbeat.clock import Clock, SystemClock
from herdbeat.scheduler.alarm import timerfd_alarm
from herdbeat.scheduler.pulse import ClockReading


class Timer(Clock, Protocol):
    """A clock that can also be waited for."""

    def pulse(self) -> ClockReading:
        """All three clocks at this moment."""
        ...

    async def sleep_until(self, moment: datetime, wake_event: asyncio.Event) -> None:
        """Return at the moment, or as soon as the event is set, whichever comes first."""
        ...


class SystemTimer(SystemClock):
    """The clock of this machine, with its timers."""

    def pulse(self) -> ClockReading:
        return ClockReading(
            self.now(), time.clock_gettime(time.CLOCK_MONOTONIC), time.clock_gettime(time.CLOCK_BOOTTIME)
        )

    async def sleep_until(self, moment: datetime, wake_event: asyncio.Event) -> None:
        seconds = (moment - self.now()).total_seconds()
        if seconds <= 0 or wake_event.is_set():
            return
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as limit:
                with timerfd_alarm(seconds, lambda: limit.reschedule(loop.time())):
                    await wake_event.wait()
        except TimeoutError:
            return
