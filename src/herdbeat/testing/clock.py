"""A clock that stands until it is moved."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.scheduler.timers import ClockReading, SystemTimer


class FakeClock:
    """Tells the time it was given. Who waits for a moment is woken when the clock is moved there or past it."""

    def __init__(self, now: datetime) -> None:
        self._now = now.astimezone(UTC)
        self._asleep = timedelta(0)
        self._jumped = timedelta(0)
        self._waiting: list[tuple[datetime, asyncio.Event]] = []

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move the clock, and say what time it is then."""
        self._now += by
        for moment, reached in self._waiting:
            if moment <= self._now:
                reached.set()
        return self._now

    def suspend(self, by: timedelta) -> datetime:
        """Close the lid: the wall goes on, the monotonic clock stands still."""
        self._asleep += by
        return self.advance(by)

    def jump(self, by: timedelta) -> datetime:
        """Set the wall clock, as a person or a time server does. No real time passes."""
        self._jumped += by
        return self.advance(by)

    def pulse(self) -> ClockReading:
        passed = (self._now - self._jumped).timestamp()
        return ClockReading(self._now, passed - self._asleep.total_seconds(), passed)

    async def sleep_until(self, moment: datetime, woken: asyncio.Event) -> None:
        """Return when the clock is moved to the moment, or as soon as the event is set."""
        if moment <= self._now:
            return
        waiting = (moment, asyncio.Event())
        self._waiting.append(waiting)
        waiters = [asyncio.ensure_future(event.wait()) for event in (waiting[1], woken)]
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.remove(waiting)
            for each in waiters:
                each.cancel()


# The clock of this machine, moved by a test: real processes, real waiting, another time on the wall.


class OffsetTimer(SystemTimer):
    """Adds the seconds written in a file, which may be changed while a process runs. Nobody else's clock is touched."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        return super().now() + self._offset()

    def pulse(self) -> ClockReading:
        real = super().pulse()
        return ClockReading(self.now(), real.monotonic, real.boottime)

    def _offset(self) -> timedelta:
        try:
            return timedelta(seconds=float(self._path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return timedelta(0)
