"""Routes what Python functions print to the log of their run.

While a node runs functions, `sys.stdout` and `sys.stderr` are streams that look at a context variable: a function, the
tasks it starts and its `asyncio.to_thread` print into its log. Everything else prints as before: the program around
it, and threads that a function starts itself, because a new thread has an empty context.
"""

import sys
import threading
from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Any, ClassVar, TextIO

from herdbeat.clock import Clock
from herdbeat.runners.process.output import OutputCapture
from herdbeat.runners.run_log import LogStream, RunLog
from herdbeat.runners.settings import RunnerSettings


class PrintedOutput:
    """What one run prints. Any thread may write; nothing is opened before the first text, and most runs print none."""

    __slots__ = ("_capture", "_clock", "_is_closed", "_lock", "_log", "_run_id", "_settings", "echoes")

    def __init__(self, run_id: int, settings: RunnerSettings, clock: Clock) -> None:
        self.echoes = settings.is_embedded
        self._run_id = run_id
        self._settings = settings
        self._clock = clock
        self._log: RunLog | None = None
        self._capture: OutputCapture | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def text(self) -> str:
        """The end of what was printed."""
        return self._capture.output if self._capture else ""

    def write(self, stream: LogStream, text: str) -> bool:
        """Return False if the run has ended, so that the text belongs to nobody."""
        with self._lock:
            if self._is_closed:
                return False
            if self._capture is None:
                self._log = RunLog(self._settings.state_dir, self._run_id, self._clock, self._settings.log_cap)
                self._capture = OutputCapture(self._log, self._settings)
            data = text.encode("utf-8", "replace")
            (self._capture.add_stdout if stream is LogStream.OUT else self._capture.add_stderr)(data)
            return True

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._capture is not None:
                self._capture.close()
            if self._log is not None:
                self._log.close()


_current_output: ContextVar[PrintedOutput | None] = ContextVar("printed_output", default=None)


def start_capture(output: PrintedOutput) -> Token[PrintedOutput | None]:
    """Route what is printed from now on in this context, and by what it starts, until `end_capture`."""
    return _current_output.set(output)


def end_capture(token: Token[PrintedOutput | None]) -> None:
    """Print as before `start_capture`. Does not close the output: what the context has started may still print."""
    _current_output.reset(token)


class RoutedStream:
    """Stands for `sys.stdout` or `sys.stderr`. Whatever it is asked except to write, the real stream answers."""

    def __init__(self, real: TextIO, stream: LogStream) -> None:
        self.real = real
        self._stream = stream

    def write(self, text: str) -> int:
        output = _current_output.get()
        if output is None or not output.write(self._stream, text) or output.echoes:
            self.real.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class PrintRouting:
    """Puts the routed streams in place, once for all nodes of a process, and takes them away with the last one."""

    _users: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._is_open = False

    def open(self) -> None:
        """Called before every run, because a program may have replaced its stdout since the last one."""
        if self._is_open and isinstance(sys.stdout, RoutedStream) and isinstance(sys.stderr, RoutedStream):
            return
        with self._lock:
            PrintRouting._users += not self._is_open
            self._is_open = True
            for name, stream in (("stdout", LogStream.OUT), ("stderr", LogStream.ERR)):
                real = getattr(sys, name)
                if real is not None and not isinstance(real, RoutedStream):  # None: a program without a console
                    setattr(sys, name, RoutedStream(real, stream))

    def close(self) -> None:
        with self._lock:
            PrintRouting._users -= self._is_open
            self._is_open = False
            for name in ("stdout", "stderr") if not PrintRouting._users else ():
                stream = getattr(sys, name)
                if isinstance(stream, RoutedStream):  # else the program has replaced it meanwhile
                    setattr(sys, name, stream.real)
