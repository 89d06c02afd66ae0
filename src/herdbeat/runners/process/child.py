"""A child process in a group of its own: started, awaited, ended, and reaped last.

Why not asyncio's subprocess: it reaps a child as soon as it ends, and from then on the id of its group may be reused.
Here the leader stays unreaped until its whole group has been ended, so a signal can never hit an unrelated process.
asyncio also needs a thread per child on Python 3.11; a pidfd needs none.
"""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, cast

from herdbeat.errors import RunnerError
from herdbeat.platform import default_signals, inherited_mark, open_pidfd, wait_without_reaping
from herdbeat.runners.process.process_tree import identify

CHUNK_BYTES = 1 << 18
"""What is read or written at once, so that one pipe does not hold up the event loop."""

MACHINE_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
"""The machine lacks a resource: not the target's fault, and another attempt may succeed."""


class Child:
    """A started process. Needs a running loop. `exited` is set when the leader has ended; its group may live on."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._is_released = False
        self.exited = asyncio.Event()
        self.identity = identify(process.pid)
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._pidfd = open_pidfd(process.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._on_exit)
        else:
            threading.Thread(target=self._wait_in_thread, name=f"wait {process.pid}", daemon=True).start()

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the whole group. Safe until the child is released: until then its id is not reused."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # some kernels raise these for a group that just ended
                os.killpg(self._process.pid, number)

    def release(self) -> int | None:
        """Reap the child, now or as soon as it ends. Returns the exit status, negative for a signal, or None."""
        self._is_released = True
        # wait() returns at once: the process has ended.
        return self._process.wait() if self.exited.is_set() else None

    def _wait_in_thread(self) -> None:
        wait_without_reaping(self._process.pid)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self.exited.set()
        if self._is_released:
            self._process.wait()


def spawn(argv: tuple[str, ...], folder: str, environment: Mapping[str, str], *, has_stdin: bool, mark: int) -> Child:
    """Start a program that bears this mark. Raises the OSError of the kernel if that fails.

    Why Popen: posix_spawn has no working directory. Popen uses vfork too, so the memory of the node does not matter,
    and the kernel closes all file descriptors in one call, so `close_fds` is cheap.
    """
    with default_signals() as preexec_fn, inherited_mark(mark):
        process = subprocess.Popen(  # noqa: S603  running what the fleet file says is our purpose
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            preexec_fn=preexec_fn,  # noqa: PLW1509  only where signals cannot be restored otherwise
        )
    try:
        return Child(process)
    except OSError:
        # Without a free descriptor for its pidfd it cannot be watched. Leaving the block closes its pipes and reaps it.
        with process:
            os.killpg(process.pid, signal.SIGKILL)
        raise


def explain_spawn_error(error: OSError | ValueError, argv: tuple[str, ...], folder: str, path: str | None) -> str:
    """Return one or two sentences. Raises RunnerError if the fault is the machine's and not the target's."""
    if isinstance(error, ValueError):
        return "The program cannot be started: an argument or environment variable contains a NUL character. Remove it."
    if error.errno in MACHINE_ERRNOS:
        message = f"No process could be started: {error.strerror}."
        raise RunnerError(message, hint="Check the limits on processes and open files (ulimit -a).") from error
    if not Path(folder).is_dir():
        return f'The working directory "{folder}" does not exist. Create it, or correct working_directory.'
    program = argv[0]
    match error.errno:
        case errno.ENOENT:
            return _not_found(program, folder, path)
        case errno.EACCES:
            return _not_allowed(program, folder)
        case errno.ENOEXEC:
            return f'"{program}" is not an executable program. If it is a script, add a first line such as #!/bin/sh.'
        case errno.E2BIG:
            return (
                "The prompt is too long for an argument. Use {prompt_file} instead of {prompt}, or read it from stdin."
            )
        case _:
            return f'"{program}" could not be started: {error.strerror}.'


def _not_found(program: str, folder: str, path: str | None) -> str:
    if os.sep not in program and shutil.which(program, path=path) is None:
        return f'There is no program "{program}" on the PATH. Install it, or write its full path.'
    if (Path(folder) / program).is_file() or os.sep not in program:
        return f'"{program}" has an interpreter in its first line that does not exist. Correct that line.'
    place = "" if Path(program).is_absolute() else f" (relative to {folder})"
    return f'There is no file "{program}"{place}. Correct its path.'


def _not_allowed(program: str, folder: str) -> str:
    if os.access(folder, os.X_OK):
        return f'"{program}" is not executable. Make it executable (chmod +x), or start it through its interpreter.'
    return f'The working directory "{folder}" is not accessible to this user. Fix its permissions.'


MIN_CHUNK_BYTES = 4096
MAX_CHUNK_S = 0.002
"""For so long the loop may be busy with one chunk. Each beat takes a dozen turns of the loop to start, and an agent
that printed a gigabyte of events, 64 KiB at a time, delayed all of them by tenths of a second."""


UNHURRIED_S = 1.0
REST_PER_WORK = 3
"""A reader that has kept the loop busy for a second rests three times as long after each chunk: a child that floods its
output waits for us, and beats do not wait for it."""


class PipeReader:
    """Reads a pipe on the event loop. `eof` is set when no process has the other end open any more.

    It reads less at a time while the chunks take long to digest, and more when they do not. `hurry` it when the child
    has ended: what is left is little, and its last line matters.
    """

    def __init__(self, pipe: IO[bytes], on_chunk: Callable[[bytes], None]) -> None:
        self._pipe = cast("FileIO", pipe)
        self._on_chunk = on_chunk
        self._loop = asyncio.get_running_loop()
        self._chunk_bytes = CHUNK_BYTES
        self._work_s = 0.0
        self._rest: asyncio.TimerHandle | None = None
        self._is_hurried = False
        self.eof = asyncio.Event()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._on_readable)

    def close(self) -> None:
        """Stop reading. Processes that still write get a broken pipe."""
        if not self.eof.is_set():
            if self._rest is not None:
                self._rest.cancel()
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.eof.set()

    def hurry(self) -> None:
        """Rest no more."""
        self._is_hurried = True
        if self._rest is not None and not self.eof.is_set():
            self._rest.cancel()
            self._resume()

    def read_remaining(self) -> None:
        """Read what is available now, at most one whole chunk, which is more than a pipe holds."""
        if not self.eof.is_set():
            self._is_hurried, self._chunk_bytes = True, CHUNK_BYTES
            self._on_readable()

    def _on_readable(self) -> None:
        chunk = self._pipe.read(self._chunk_bytes)
        if chunk:
            began_at = self._loop.time()
            self._on_chunk(chunk)
            self._adapt(len(chunk), self._loop.time() - began_at)
        elif chunk is not None:
            self.close()

    def _adapt(self, size: int, seconds: float) -> None:
        self._work_s += seconds
        if self._work_s > UNHURRIED_S and self._rest is None and not self._is_hurried:
            self._loop.remove_reader(self._pipe.fileno())
            self._rest = self._loop.call_later(seconds * REST_PER_WORK, self._resume)
        if seconds > MAX_CHUNK_S:
            self._chunk_bytes = max(MIN_CHUNK_BYTES, min(size, self._chunk_bytes) // 2)
        elif size == self._chunk_bytes and seconds < MAX_CHUNK_S / 4:
            self._chunk_bytes = min(CHUNK_BYTES, self._chunk_bytes * 2)

    def _resume(self) -> None:
        self._rest = None
        self._loop.add_reader(self._pipe.fileno(), self._on_readable)


class PipeWriter:
    """Writes a text into a pipe on the event loop, then closes it. A child that stops reading is not an error."""

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
