"""Output that never blocks: a thread writes it, so that a reader that stops reading holds up nothing else.

A terminal after Ctrl+S, or `herdbeat up | less`, once stopped every beat: the loop waited until its line was read.
"""

import io
import logging
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TextIO, cast

from herdbeat.cli.output.terminal import Terminal, redirect_to_devnull

log = logging.getLogger(__name__)

MAX_QUEUED_BYTES = 1_048_576
"""What waits for the reader. Beyond that, output is left out and counted."""

DRAIN_TIMEOUT_S = 2.0
"""How long the end of a command waits for a reader that reads nothing."""


class BackgroundWriter:
    """Writes to one file from a thread of its own, in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._omitted = 0
        self._written = 0
        self._error: OSError | None = None
        threading.Thread(target=self._run, name=f"output {fd}", daemon=True).start()

    def put(self, data: bytes) -> None:
        """Queue some bytes. Raises the OSError with which an earlier write has failed, once."""
        with self._changed:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            # One hole and not many small ones: nothing is queued again before everything queued was read.
            if self._omitted or self._queued_bytes + len(data) > MAX_QUEUED_BYTES:
                self._omitted += 1
                return
            self._queue.append(data)
            self._queued_bytes += len(data)
            self._changed.notify_all()

    def drain(self) -> bool:
        """Wait while the reader reads. Returns whether everything was written."""
        with self._changed:
            while self._queued_bytes:
                written = self._written
                self._changed.wait(DRAIN_TIMEOUT_S)
                if self._written == written:
                    return False
            return self._error is None

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                data = self._queue.popleft()
            error = self._write(data)
            with self._changed:
                self._queued_bytes -= len(data)
                if error is not None:
                    self._error, self._queued_bytes = error, 0
                    self._queue.clear()
                omitted = 0 if self._queue else self._omitted
                self._omitted -= omitted
                self._changed.notify_all()
            if omitted:
                log.warning("output was not read; %d lines left out. Show what happened: herdbeat runs", omitted)

    def _write(self, data: bytes) -> OSError | None:
        rest = memoryview(data)
        while rest:
            try:
                count = os.write(self._fd, rest)
            except BlockingIOError:  # another program has made this terminal non-blocking
                select.select([], [self._fd], [])
                continue
            except OSError as error:
                return error
            rest = rest[count:]
            with self._changed:
                self._written += count
        return None


class BackgroundStream(io.TextIOBase):
    """A text stream over a writer. `write` returns at once, and `flush` has nothing to do."""

    def __init__(self, stream: TextIO, writer: BackgroundWriter) -> None:
        self._stream, self._writer = stream, writer

    def write(self, text: str) -> int:
        if text:
            self._writer.put(text.encode(self._stream.encoding or "utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        """The thread writes as soon as it can."""

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()


@contextmanager
def background_output(terminal: Terminal) -> Iterator[Terminal]:
    """Give a terminal whose streams never block. At the end, what a reader does not read in time is given up."""
    writers: dict[tuple[int, int], BackgroundWriter] = {}
    opened: list[tuple[TextIO, BackgroundWriter]] = []

    def open_stream(stream: TextIO) -> TextIO:
        if (file := _find_blocking_file(stream)) is None:
            return stream
        stream.flush()
        # One writer if both are the same terminal: its lines stay in order.
        writer = writers[file] = writers.get(file) or BackgroundWriter(stream.fileno())
        opened.append((stream, writer))
        return cast("TextIO", BackgroundStream(stream, writer))

    try:
        yield replace(terminal, out=open_stream(terminal.out), err=open_stream(terminal.err))
    finally:
        for stream, writer in opened:
            if not writer.drain():
                redirect_to_devnull(stream)


def _find_blocking_file(stream: TextIO) -> tuple[int, int] | None:
    """Return what identifies a terminal, pipe or socket; None for what a write never waits for."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    can_block = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or stream.isatty()
    return (status.st_dev, status.st_ino) if can_block else None
