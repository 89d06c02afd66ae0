"""Clocks and timers of a node: waiting for a moment, the time of a shared store, and time that was lost."""

import asyncio
import logging
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Protocol

from herdbeat.clock import Clock, SystemClock
from herdbeat.domain.beat import Gap, MissedReason
from herdbeat.platform import awake_time, boot_time, start_timerfd
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

DRIFT_TOLERANCE = timedelta(seconds=2)
"""A smaller difference is a slow machine or a clock that is being adjusted, not lost time."""

CLOCK_SAMPLES = 3
CLOCK_SKEW_WARNING = timedelta(seconds=2)
CLOCK_DRIFT_RATE = 0.0001
"""By how many seconds a measurement grows less exact every second: two clocks drift apart."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The three clocks at one moment. MONOTONIC stands still while the machine is suspended, BOOTTIME does not."""

    wall: datetime
    monotonic: float
    boottime: float


def detect_gap(before: ClockReading, after: ClockReading, stalled: timedelta = timedelta(0)) -> Gap | None:
    """Return the time that was lost between two readings, if any was.

    `stalled` is how long the process stood still between them, which counts as slept, too. However far apart the
    readings are, a node that only waited (for a locked store, for a free slot) was alive: then nothing is lost.
    """
    monotonic_elapsed = timedelta(seconds=after.monotonic - before.monotonic)
    boottime_elapsed = timedelta(seconds=after.boottime - before.boottime)
    wall_elapsed = after.wall - before.wall
    if wall_elapsed - boottime_elapsed > DRIFT_TOLERANCE:
        return Gap(from_at=before.wall, until=after.wall, reason=MissedReason.CLOCK_JUMPED)
    if stalled or boottime_elapsed - monotonic_elapsed > DRIFT_TOLERANCE:
        return Gap(from_at=before.wall, until=max(after.wall, before.wall), reason=MissedReason.SLEPT)
    return None


def detect_step_back(before: ClockReading, after: ClockReading) -> timedelta:
    """Return by how much the wall clock was set back; stored times and anchors may then lie in the future. Else 0."""
    step = timedelta(seconds=after.boottime - before.boottime) - (after.wall - before.wall)
    return step if step > DRIFT_TOLERANCE else timedelta(0)


def cut_gaps(gaps: Iterable[Gap], now: datetime) -> list[Gap]:
    """Return the gaps without what lies after `now`: once the clock was set back, that time has not passed."""
    return [replace(gap, until=min(gap.until, now)) for gap in gaps if gap.from_at < now]


class StallWatch:
    """Measures for how long this process stood still as a whole: stopped by a signal, or frozen by a container engine.

    A thread of its own looks at the clock, because the event loop may stand still while the node lives: it waits for a
    locked store, or a function blocks it. Once, a lock of the ledger for 15 s was recorded as sleep.
    """

    def __init__(self, tolerance: timedelta, read_clock: Callable[[], float] = awake_time) -> None:
        self._tolerance_s = tolerance.total_seconds()
        self._read_clock = read_clock
        self._lock = threading.Lock()
        self._looked_at = read_clock()
        self._stalled_s = 0.0

    def take(self) -> timedelta:
        """Return for how long the process stood still since the last call; shorter times than the tolerance are 0."""
        with self._lock:
            self._look()
            stalled_s, self._stalled_s = self._stalled_s, 0.0
        return timedelta(seconds=stalled_s)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look at the clock regularly within the block."""
        ended = threading.Event()
        self._looked_at = self._read_clock()
        thread = threading.Thread(target=self._look_until, args=(ended,), name="herdbeat-stalls", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _look_until(self, ended: threading.Event) -> None:
        while not ended.wait(self._tolerance_s / 3):
            with self._lock:
                self._look()

    def _look(self) -> None:
        now = self._read_clock()
        silent_s, self._looked_at = now - self._looked_at, now
        if silent_s > self._tolerance_s:
            self._stalled_s += silent_s


class Timer(Clock, Protocol):
    """A clock that can also be waited for. Apart from `Clock`, so that reading the time loads no event loop."""

    def read_clocks(self) -> ClockReading:
        """Return all three clocks at this moment."""
        ...

    async def sleep_until(self, moment: datetime, wake_event: asyncio.Event) -> None:
        """Return at the moment, or as soon as the event is set, whichever comes first."""
        ...


class SystemTimer(SystemClock):
    """The clock and the timers of this machine."""

    def read_clocks(self) -> ClockReading:
        return ClockReading(self.now(), awake_time(), boot_time())

    async def sleep_until(self, moment: datetime, wake_event: asyncio.Event) -> None:
        """Return at the moment, or earlier if the event is set. A moment that has passed is not waited for."""
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


@contextmanager
def timerfd_alarm(seconds: float, callback: Callable[[], None]) -> Iterator[None]:
    """Within the block, call back from the running loop when so much time has passed.

    A kernel timer is exact to a tenth of a millisecond. asyncio hands whole milliseconds to epoll, rounded up, and is
    0.7 ms late at the median and 2 ms in bad cases: more than everything else between the due instant and its claim.
    """
    loop = asyncio.get_running_loop()
    fd = start_timerfd(seconds)
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
    """The file stays readable, and would call back at every step of the loop until the block ends."""
    loop.remove_reader(fd)
    callback()


class DatabaseTimer:
    """The time of a shared store as a clock: all nodes agree on it, however wrong their own clocks are.

    Between two measurements it follows CLOCK_BOOTTIME, so setting the clock of this machine does not move it.
    """

    def __init__(self, local: Timer, query_time: Callable[[], datetime]) -> None:
        self._local = local
        self.read_boottime = boottime_reader(local)
        self._query_time = query_time
        self._boot_time = local.now() - timedelta(seconds=local.read_clocks().boottime)
        self._error = float("inf")
        self._measured_at = local.read_clocks().boottime
        self._has_warned = False

    def now(self) -> datetime:
        return self._boot_time + timedelta(seconds=self.read_boottime())

    def read_clocks(self) -> ClockReading:
        local = self._local.read_clocks()
        return ClockReading(self._boot_time + timedelta(seconds=local.boottime), local.monotonic, local.boottime)

    async def sleep_until(self, moment: datetime, wake_event: asyncio.Event) -> None:
        await self._local.sleep_until(self._local.now() + (moment - self.now()), wake_event)

    async def measure(self) -> None:
        """Query a few times, and trust the quickest answer: it is the most exact. Raises StoreUnavailable."""
        for _ in range(CLOCK_SAMPLES):
            sent_at = self._local.read_clocks().boottime
            server_time = await call_in_thread(self._query_time)
            received_at = self._local.read_clocks().boottime
            self._accept_sample(server_time, sent_at, received_at)
        self._warn_once()

    def _accept_sample(self, server_time: datetime, sent_at: float, received_at: float) -> None:
        error = received_at - sent_at
        boot_time = server_time - timedelta(seconds=(sent_at + received_at) / 2)
        aged_error = self._error + (received_at - self._measured_at) * CLOCK_DRIFT_RATE
        is_first = self._error == float("inf")
        has_jumped = is_first or abs(boot_time - self._boot_time) > timedelta(seconds=error + aged_error + 1)
        if error <= aged_error or has_jumped:
            self._boot_time, self._error, self._measured_at = boot_time, error, received_at

    def _warn_once(self) -> None:
        skew = self._local.now() - self.now()
        if abs(skew) > CLOCK_SKEW_WARNING and not self._has_warned:
            self._has_warned = True
            direction = "ahead of" if skew > timedelta(0) else "behind"
            log.warning(
                "clock differs seconds=%.1f this machine is %s the database; the database's time is used",
                abs(skew).total_seconds(),
                direction,
            )


def boottime_reader(timer: Timer) -> Callable[[], float]:
    """Return a function that reads `boottime` alone.

    Every start of a run asks for it, and for the time of a database, which follows it. `read_clocks` would read
    all three clocks each time.
    """
    if isinstance(timer, DatabaseTimer):
        return timer.read_boottime
    if type(timer) is SystemTimer:  # not a subclass, which may have another clock
        return boot_time
    return lambda: timer.read_clocks().boottime


class RunTimeouts:
    """Cancels the tasks of runs whose time is over, with one timer of the event loop for all of them.

    `asyncio.timeout` adds a timer to the loop and takes it out again, which is 5 µs a run. Hardly one of them fires.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._active: set[RunTimeout] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = math.inf

    def limit(self, timeout: timedelta) -> "RunTimeout":
        """Return a block that raises TimeoutError if the current task is in it for longer."""
        # With the loop: without it, asyncio asks the kernel for the id of this process each time.
        task = asyncio.current_task(self._loop) if self._loop is not None else None
        if task is None:  # a program may run one loop after the other, and a timer ends with its loop
            self._loop, self._active, self._timer, self._fires_at = asyncio.get_running_loop(), set(), None, math.inf
            task = asyncio.current_task(self._loop)
        assert self._loop is not None
        assert task is not None
        return RunTimeout(self, task, self._loop.time() + timeout.total_seconds())

    def add(self, timeout: "RunTimeout") -> None:
        self._active.add(timeout)
        if timeout.at < self._fires_at:
            self._fire_at(timeout.at)

    def discard(self, timeout: "RunTimeout") -> None:
        """Forget it. The timer stays: when it fires and no block has expired, it is set to the next."""
        self._active.discard(timeout)

    def _fire_at(self, moment: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = self._loop.call_at(moment, self._fire), moment

    def _fire(self) -> None:
        # The loop calls a little early, by what its clock cannot tell apart: so the time it was set for has passed,
        # too.
        over, self._fires_at = self._fires_at, math.inf
        for each in [each for each in self._active if each.at <= over]:
            self._active.discard(each)
            each.expire()
        self._timer = None
        if self._active:
            self._fire_at(min(each.at for each in self._active))


class RunTimeout:
    """A block of one task that ends at a moment of the loop's clock, as `asyncio.timeout` would end it."""

    __slots__ = ("_cancel_requests", "_has_expired", "_task", "_timeouts", "at")

    def __init__(self, timeouts: RunTimeouts, task: "asyncio.Task[object]", at: float) -> None:
        self._timeouts = timeouts
        self._task = task
        self._cancel_requests = task.cancelling()
        self._has_expired = False
        self.at = at

    def expire(self) -> None:
        self._has_expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        self._timeouts.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timeouts.discard(self)
        # Another cancellation beside ours stays one: other code wants this task to end.
        if self._has_expired and self._task.uncancel() <= self._cancel_requests and kind is asyncio.CancelledError:
            raise TimeoutError from error
