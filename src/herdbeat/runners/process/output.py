"""Captures what a child prints: in the run's log, as the stored end of the output, and as a JSON response."""

import codecs
import json
from collections import deque
from typing import Protocol

from herdbeat.runners.run_log import LogStream, RunLog
from herdbeat.runners.settings import RunnerSettings

MAX_STDERR_TAIL_BYTES = 4096


class OutputSink(Protocol):
    """Takes what a child prints, in chunks as they arrive. It must not block, nor raise."""

    def add_stdout(self, chunk: bytes) -> None: ...

    def add_stderr(self, chunk: bytes) -> None: ...

    def mark_cancelled(self) -> None:
        """The run is cancelled and its child is asked to end. What it still prints follows."""
        ...

    def close(self) -> None:
        """Nothing follows."""
        ...


class TailBuffer:
    """The last `cap` bytes of a stream. Memory and time per chunk do not depend on the length of the stream."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.total = 0

    def append(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._chunks.append(chunk[-self._cap :])
        self._size += len(self._chunks[-1])
        while self._size - len(self._chunks[0]) >= self._cap:
            self._size -= len(self._chunks.popleft())

    def text(self) -> str:
        """Return the kept bytes as text. Invalid UTF-8 is replaced, and so is NUL, which databases do not accept."""
        kept = b"".join(self._chunks)[-self._cap :]
        if self.total > len(kept):
            kept = kept.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a character that was cut in two
        return kept.decode("utf-8", "replace").replace("\0", "\ufffd")

    def last_line(self) -> str:
        """Return the last line that is not blank; empty if there is none."""
        return self.text().rstrip().rpartition("\n")[2].strip()


class ErrorTail:
    """Passes output on, and keeps the end of stderr."""

    def __init__(self, sink: OutputSink) -> None:
        self._sink = sink
        self._errors = TailBuffer(MAX_STDERR_TAIL_BYTES)
        self.add_stdout = sink.add_stdout
        self.mark_cancelled = sink.mark_cancelled
        self.close = sink.close

    def add_stderr(self, chunk: bytes) -> None:
        self._errors.append(chunk)
        self._sink.add_stderr(chunk)

    def text(self) -> str:
        return self._errors.text()


class OutputCapture:
    """Takes chunks as they arrive. Beyond the caps it only counts them.

    So a child that prints a gigabyte needs no more memory than one that prints a page, and never blocks on its pipe.
    """

    def __init__(self, log: RunLog, settings: RunnerSettings) -> None:
        self._log = log
        self._output = TailBuffer(settings.output_cap)
        self._errors = TailBuffer(MAX_STDERR_TAIL_BYTES)
        self._response_bytes: bytearray | None = bytearray()
        self._response_cap = settings.response_cap
        self._unlogged_bytes = 0
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in LogStream}

    def add_stdout(self, chunk: bytes) -> None:
        self._collect_response(chunk)
        self._add(LogStream.OUT, chunk)

    def add_stderr(self, chunk: bytes) -> None:
        self._errors.append(chunk)
        self._add(LogStream.ERR, chunk)

    def mark_cancelled(self) -> None:
        """Change nothing: what a cancelled program still prints is output like any other."""

    def close(self) -> None:
        """Write what the log still lacks: an incomplete character, or the end of an output that exceeded its cap."""
        for stream, decoder in self._decoders.items():
            self._log.write(stream, decoder.decode(b"", final=True))
        if self._unlogged_bytes:
            end = self._output.text()[-self._unlogged_bytes :]
            self._log.note(
                f"{max(0, self._unlogged_bytes - len(end.encode()))} bytes omitted; the end of the output follows:"
            )
            self._log.write_uncapped(LogStream.OUT, end)

    @property
    def output(self) -> str:
        """The end of stdout and stderr, in the order of their arrival."""
        return self._output.text()

    @property
    def last_error(self) -> str:
        """The last line on stderr, which usually says why a program failed."""
        return self._errors.last_line()

    def response(self) -> object:
        """Return stdout if it is one JSON object within the cap; else None."""
        if not self._response_bytes:
            return None
        try:
            data = json.loads(self._response_bytes)
        except (ValueError, RecursionError):
            return None
        return data if isinstance(data, dict) else None

    def _add(self, stream: LogStream, chunk: bytes) -> None:
        self._output.append(chunk)
        if self._log.is_full:
            self._unlogged_bytes += len(chunk)
        else:
            self._log.write(stream, self._decoders[stream].decode(chunk))

    def _collect_response(self, chunk: bytes) -> None:
        if self._response_bytes is None:
            return
        self._response_bytes += chunk
        start = self._response_bytes[:64].lstrip()
        if len(self._response_bytes) > self._response_cap or (start and not start.startswith(b"{")):
            self._response_bytes = None
