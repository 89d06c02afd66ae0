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
