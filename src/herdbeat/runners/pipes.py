"""The ends of a child's pipes that are ours, on the event loop, without a stream's buffers in between."""

import asyncio
import os
from collections.abc import Callable
from io import FileIO
from typing import IO, cast

CHUNK = 1 << 18
"""As much as is taken at once: then it is the others' turn."""


class Drain:
    """Reads a pipe to its end. `ended` is set when the last process that held the other end has let go."""

    def __init__(self, pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
        self._pipe = cast("FileIO", pipe)
        self._take = take
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._on_readable)

    def close(self) -> None:
        """Stop reading, whoever still writes: they are told by a broken pipe."""
        if not self.ended.is_set():
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.ended.set()

    def take_rest(self) -> None:
        """Read what is there now, at most one chunk, and no further."""
        if not self.ended.is_set():
            self._on_readable()

    def _on_readable(self) -> None:
        chunk = self._pipe.read(CHUNK)
        if chunk:
            self._take(chunk)
        elif chunk is not None:
            self.close()


class Feed:
    """Writes all of a text into a pipe and closes it. A child that does not want to read on is left in peace."""

    def __init__(self, pipe: IO[bytes], text: bytes) -> None:
        self._pipe = pipe
        self._left = memoryview(text)
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
            self._left = self._left[os.write(self._pipe.fileno(), self._left[:CHUNK]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._left = self._left[:0]
        if not self._left:
            self.close()
        elif not self._is_waiting:
            self._loop.add_writer(self._pipe.fileno(), self._write)
            self._is_waiting = True
