"""Clocks for tests: one that moves only by hand, and one that adds an offset to the machine's."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.scheduler.timers import ClockReading, SystemTimer


class FakeClock:
    """A clock that stands still until a test moves it. Moving it wakes every waiter whose time has come."""

    def __init__(self, now: datetime) -> None:
        self._now = now.astimezone(UTC)
        self._asleep = timedelta(0)
        self._jumped = timedelta(0)
        self._waiting: list[tuple[datetime, asyncio.Event]] = []

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move the clock and return the new time."""
        self._now += by
        for moment, reached in self._waiting:
            if moment <= self._now:
                reached.set()
        return self._now

    def suspend(self, by: timedelta) -> datetime:
        """Simulate a suspended machine: the wall clock advances, the monotonic clock does not."""
        self._asleep += by
        return self.advance(by)

    def jump(self, by: timedelta) -> datetime:
        """Simulate a clock that is set by a person or a time server: no real time passes."""
        self._jumped += by
        return self.advance(by)

    def read_clocks(self) -> ClockReading:
        passed = (self._now - self._jumped).timestamp()
        return ClockReading(self._now, passed - self._asleep.total_seconds(), passed)

    async def sleep_until(self, moment: datetime, woken: asyncio.Event) -> None:
        """Return when the clock reaches `moment`, or as soon as `woken` is set."""
        if moment <= self._now:
            return
        waiting = (moment, asyncio.Event())
        self._waiting.append(waiting)
        waiters = [asyncio.ensure_future(event.wait()) for event in (waiting[1], woken)]
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.remove(waiting)
            for waiter in waiters:
                waiter.cancel()


class OffsetTimer(SystemTimer):
    """The machine's clock plus the seconds in a file, for tests with real processes and real waiting.

    A test may change the file while the process runs. The clock of the machine is not touched.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        return super().now() + self._offset()

    def read_clocks(self) -> ClockReading:
        real = super().read_clocks()
        return ClockReading(self.now(), real.monotonic, real.boottime)

    def _offset(self) -> timedelta:
        try:
            return timedelta(seconds=float(self._path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return timedelta(0)
