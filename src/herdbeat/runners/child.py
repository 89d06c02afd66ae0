"""One child process with a group of its own: started, awaited, ended, and reaped last.

Why not asyncio's subprocess: it reaps a child the moment it ends, and from then on the number of its group may belong
to somebody else. Here the leader stays unreaped until its group has been ended, so a signal can never hit a stranger.
It also costs a thread per child on Python 3.11, where a pidfd costs nothing.
"""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from herdbeat.runners.processes import ProcessIdentity, read_start_time


class Child:
    """Needs a running loop. `exited` is set when the leader has ended; others of its group may live on."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._is_released = False
        self._pidfd = -1
        self.exited = asyncio.Event()
        self.identity = ProcessIdentity(process.pid, read_start_time(process.pid) or 0)
        self._watch()

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        assert self._process.stderr is not None
        return self._process.stderr

    def signal_group(self, number: signal.Signals) -> None:
        """Signal everything in the group. Safe as long as the child is not released: its number is still its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # some kernels say so of a group that has just ended
                os.killpg(self._process.pid, number)

    def release(self) -> int | None:
        """Reap it: now, or as soon as it ends. The exit status is a negative signal number if it was killed."""
        self._is_released = True
        if self.exited.is_set():
            return self._process.wait()  # does not wait: it has ended
        return None

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._pidfd, self._on_exit)
        else:
            threading.Thread(target=self._wait_in_thread, name=f"wait {self._process.pid}", daemon=True).start()

    def _wait_in_thread(self) -> None:
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self.exited.set()
        if self._is_released:
            self._process.wait()


def spawn(argv: tuple[str, ...], folder: str, environment: Mapping[str, str], *, has_stdin: bool) -> Child:
    """Start a program. What is wrong with it is raised as the kernel's OSError.

    Popen and not posix_spawn, which knows no working directory. It uses vfork all the same, so the size of the node
    does not matter; file descriptors are closed by the kernel in one call, so `close_fds` costs nothing to speak of.
    """
    process = subprocess.Popen(  # noqa: S603  running what the fleet file says is our purpose
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    try:
        return Child(process)
    except OSError:
        _kill_process(process)  # no descriptor is left to watch it with
        raise


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()
