"""A timer of the kernel that rings to the tenth of a millisecond.

asyncio hands whole milliseconds to epoll, rounded up, and wakes 0.7 ms late at the median and 2 ms in bad cases:
more than everything else between the due instant and its claim. Where there is no timerfd, asyncio has to do.
"""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
"""TFD_NONBLOCK and TFD_CLOEXEC are these, on every Linux."""

_LIBC = ctypes.CDLL(None, use_errno=True)
"""Asked directly: Python itself has `timerfd_create` only from 3.13 on."""


class _Spec(ctypes.Structure):
    """struct itimerspec: how often again (never), and how long from now."""

    _fields_ = (
        ("again_seconds", ctypes.c_long),
        ("again_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


@contextmanager
def alarm(seconds: float, ring: Callable[[], None]) -> Iterator[None]:
    """Within the block, call `ring` from the running loop when so much time has passed."""
    loop = asyncio.get_running_loop()
    timer = _start(seconds)
    if timer is None:
        handle = loop.call_later(seconds, ring)
        try:
            yield
        finally:
            handle.cancel()
        return
    loop.add_reader(timer, _once, loop, timer, ring)
    try:
        yield
    finally:
        loop.remove_reader(timer)
        os.close(timer)


def _once(loop: asyncio.AbstractEventLoop, timer: int, ring: Callable[[], None]) -> None:
    """The file stays readable, and would ring at every turn of the loop until somebody gets up."""
    loop.remove_reader(timer)
    ring()


def _start(seconds: float) -> int | None:
    """A file that becomes readable then."""
    if not hasattr(_LIBC, "timerfd_create"):
        return None
    timer: int = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
    if timer < 0:
        return None  # no more files: late is better than never
    whole = int(seconds)
    spec = _Spec(0, 0, whole, int((seconds - whole) * 1e9))
    _LIBC.timerfd_settime(timer, 0, ctypes.byref(spec), None)
    return timer
