"""The time of the store as a clock of this node: all nodes agree on it, however wrong their own clocks are."""

import asyncio
import ctypes
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Protocol

from herdbeat.clock import Clock, SystemClock
from herdbeat.scheduler.clock_drift import ClockReading

# A timer of the kernel that rings to the tenth of a millisecond.
#
# asyncio hands whole milliseconds to epoll, rounded up, and wakes 0.7 ms late at the median and 2 ms in bad cases:
# more than everything else between the due instant and its claim. Where there is no timerfd, asyncio has to do.


_TIMERFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
"""TFD_NONBLOCK and TFD_CLOEXEC are these, on every Linux."""

_LIBC = ctypes.CDLL(None, use_errno=True)
"""Asked directly: Python itself has `timerfd_create` only from 3.13 on."""


class _ITimerSpec(ctypes.Structure):
    """struct itimerspec: how often again (never), and how long from now."""

    _fields_ = (
        ("again_seconds", ctypes.c_long),
        ("again_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


@contextmanager
def timerfd_alarm(seconds: float, callback: Callable[[], None]) -> Iterator[None]:
    """Within the block, call `ring` from the running loop when so much time has passed."""
    loop = asyncio.get_running_loop()
    fd = _start_timerfd(seconds)
    if fd is None:
        handle = loop.call_later(seconds, callback)
        try:
            yield
        finally:
            handle.cancel()
        return
    loop.add_reader(fd, _call_once, loop, fd, callback)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def _call_once(loop: asyncio.AbstractEventLoop, fd: int, callback: Callable[[], None]) -> None:
    """The file stays readable, and would ring at every turn of the loop until somebody gets up."""
    loop.remove_reader(fd)
    callback()


def _start_timerfd(seconds: float) -> int | None:
    """A file that becomes readable then."""
    if not hasattr(_LIBC, "timerfd_create"):
        return None
    fd: int = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, _TIMERFD_FLAGS)
    if fd < 0:
        return None  # no more files: late is better than never
    whole_seconds = int(seconds)
    spec = _ITimerSpec(0, 0, whole_seconds, int((seconds - whole_seconds) * 1e9))
    _LIBC.timerfd_settime(fd, 0, ctypes.byref(spec), None)
    return fd


# Waiting for a moment. Apart from the clock, since who only asks for the time should not load an event loop.


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
