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
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import FileIO
from typing import IO, cast

from herdbeat.runners.process.output import OutputCapture
from herdbeat.runners.process.procfs import ProcessIdentity, read_start_time
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings


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


# The ends of a child's pipes that are ours, on the event loop, without a stream's buffers in between.


CHUNK_BYTES = 1 << 18
"""As much as is taken at once: then it is the others' turn."""


class PipeReader:
    """Reads a pipe to its end. `ended` is set when the last process that held the other end has let go."""

    def __init__(self, pipe: IO[bytes], on_chunk: Callable[[bytes], None]) -> None:
        self._pipe = cast("FileIO", pipe)
        self._on_chunk = on_chunk
        self._loop = asyncio.get_running_loop()
        self.eof = asyncio.Event()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._on_readable)

    def close(self) -> None:
        """Stop reading, whoever still writes: they are told by a broken pipe."""
        if not self.eof.is_set():
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.eof.set()

    def read_remaining(self) -> None:
        """Read what is there now, at most one chunk, and no further."""
        if not self.eof.is_set():
            self._on_readable()

    def _on_readable(self) -> None:
        chunk = self._pipe.read(CHUNK_BYTES)
        if chunk:
            self._on_chunk(chunk)
        elif chunk is not None:
            self.close()


class PipeWriter:
    """Writes all of a text into a pipe and closes it. A child that does not want to read on is left in peace."""

    def __init__(self, pipe: IO[bytes], text: bytes) -> None:
        self._pipe = pipe
        self._unwritten = memoryview(text)
        self._loop = asyncio.get_running_loop()
        self._is_waiting = False
        os.set_blocking(pipe.fileno(), False)
        self._write()

    def close(self) -> None:
        if self._is_waiting:
            self._loop.remove_writer(self._pipe.fileno())
            self._is_waiting = False
        self._pipe.close()

    def _write(self) -> None:
        try:
            self._unwritten = self._unwritten[os.write(self._pipe.fileno(), self._unwritten[:CHUNK_BYTES]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unwritten = self._unwritten[:0]
        if not self._unwritten:
            self.close()
        elif not self._is_waiting:
            self._loop.add_writer(self._pipe.fileno(), self._write)
            self._is_waiting = True


# A child that somebody waits for: its pipes are read, and nothing of it is left when the waiting ends.


class SupervisedProcess:
    """A child and the ends of its pipes, from its start until nothing of it is left."""

    def __init__(
        self, child: Child, capture: OutputCapture, run_log: RunLog, settings: RunnerSettings, stdin: bytes
    ) -> None:
        self._child = child
        self._capture = capture
        self._run_log = run_log
        self._kill_after = settings.kill_after.total_seconds()
        self._pipe_grace = settings.pipe_grace.total_seconds()
        self._readers = (PipeReader(child.stdout, capture.add_stdout), PipeReader(child.stderr, capture.add_stderr))
        self._writer = PipeWriter(child.stdin, stdin) if child.stdin is not None else None

    async def wait_exit(self) -> int:
        """The exit status. Cancelled: TERM to the group, time to obey, then KILL. Cancelled twice: KILL at once."""
        try:
            await self._child.exited.wait()
            await self._drain_pipes()
        except asyncio.CancelledError:
            self._run_log.note("cancelled: the program is asked to end")
            self._child.signal_group(signal.SIGTERM)
            await self._await_termination()
            raise
        finally:
            status = self._cleanup()
        assert status is not None
        return status

    async def _drain_pipes(self) -> None:
        """The program has ended, but one that it started may hold its output, and would hold us for ever."""
        try:
            async with asyncio.timeout(self._pipe_grace):
                await self._wait_drained()
        except TimeoutError:
            self._run_log.note("the program has ended but left others behind that hold its output: they are ended, too")

    async def _await_termination(self) -> None:
        try:
            async with asyncio.timeout(self._kill_after):
                await self._child.exited.wait()
                await self._wait_drained()
        except TimeoutError:
            self._run_log.note("it did not end in time and is killed")
        except asyncio.CancelledError:
            self._run_log.note("cancelled once more: the program is killed")
        self._child.signal_group(signal.SIGKILL)
        await self._child.exited.wait()

    async def _wait_drained(self) -> None:
        for reader in self._readers:
            await reader.eof.wait()

    def _cleanup(self) -> int | None:
        """Whatever is left of the group dies with the run, before the number of the group is given back."""
        self._child.signal_group(signal.SIGKILL)
        for reader in self._readers:
            reader.read_remaining()
            reader.close()
        if self._writer is not None:
            self._writer.close()
        self._capture.close()
        return self._child.release()
