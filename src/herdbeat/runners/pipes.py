"""The ends of a child's pipes that are ours, on the event loop, without a stream's buffers in between."""

import asyncio
import os
from collections.abc import Callable
from io import FileIO
from typing import IO, cast

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
