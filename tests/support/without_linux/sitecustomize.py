"""Hides what only Linux has, in every Python process with this folder on its path: for tests of the fallbacks.

The reaper process does not read the path, so its first line is changed. `sys.platform` stays as it is, because the
standard library imports other modules by it.
"""

import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

LINUX_ONLY: dict[Any, str] = {
    os: "pidfd_open waitid P_PID P_PIDFD WEXITED WNOWAIT sched_getaffinity sched_setaffinity pipe2 eventfd splice"
    " memfd_create fdatasync getxattr posix_fadvise posix_fallocate copy_file_range getrandom",
    time: "CLOCK_BOOTTIME",
    socket: "SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED",
    select: "epoll",
    resource: "prlimit RLIMIT_RTTIME",
    signal: "pidfd_send_signal sigwaitinfo sigtimedwait",
}
"""What these modules lack on macOS, with some version of Python."""

ROOT = Path(__file__).parents[3]


class PosixLibrary:
    """The C library without what only Linux has."""

    def __init__(self, libc: Any) -> None:
        self._libc = libc

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("timerfd", "prctl", "epoll")):
            raise AttributeError(name)
        return getattr(self._libc, name)


def remove() -> None:
    """Remove it from this process, before anything else of herdbeat is imported."""
    for module, names in LINUX_ONLY.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    from herdbeat import platform

    library = PosixLibrary(platform.load_libc())
    platform.load_libc = lambda: library  # type: ignore[assignment]
    platform.PROC, platform.HAS_PROC = "/nowhere", False


def remove_from_reapers() -> None:
    """Remove it from the reaper processes that this process starts."""
    from herdbeat.runners.process import reaper

    before, found, after = reaper.REAPER_BOOTSTRAP.partition("from herdbeat")
    reaper.REAPER_BOOTSTRAP = (
        f"{before}sys.path.insert(0, {str(Path(__file__).parent)!r}); import sitecustomize; {found}{after}"
    )


remove()
if not sys.flags.isolated:
    remove_from_reapers()
