"""Output in the background: nobody waits for a reader, nothing is lost in silence, and the order stays."""

import fcntl
import io
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

import pytest

from herdbeat.cli.output import background
from herdbeat.cli.output.background import background_output
from herdbeat.cli.output.terminal import Terminal


@dataclass
class Pipe:
    reader: int
    out: TextIO

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := os.read(self.reader, size - len(data))):
            data += more
        return data

    def fill(self) -> int:
        """Fill it, as a reader does that has stopped reading; return how much is in it."""
        fd, count = self.out.fileno(), 0
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while True:
                count += os.write(fd, b"." * 512)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        return count


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as out:
        yield Pipe(reader, out)
    with suppress(OSError):
        os.close(reader)


def test_lines_of_both_streams_stay_in_order(pipe: Pipe) -> None:
    with background_output(Terminal(out=pipe.out, err=pipe.out)) as terminal:
        for number in range(100):
            terminal.print(f"out {number}")
            terminal.error(f"err {number} ✓")

    expected = "".join(f"out {number}\nerr {number} ✓\n" for number in range(100)).encode()
    assert pipe.read(len(expected)) == expected


def test_a_write_does_not_wait_for_a_reader_that_has_stopped(pipe: Pipe) -> None:
    junk = pipe.fill()

    with background_output(Terminal(out=pipe.out, err=io.StringIO())) as terminal:
        terminal.print("first")
        terminal.print("second")
        assert pipe.read(junk) == b"." * junk  # it reads again

    assert pipe.read(13) == b"first\nsecond\n"


def test_what_was_left_out_is_counted_in_the_log(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "MAX_QUEUED_BYTES", 12)
    junk = pipe.fill()

    with caplog.at_level(logging.WARNING), background_output(Terminal(out=pipe.out, err=io.StringIO())) as terminal:
        for number in range(5):
            terminal.print(f"line {number}")
        assert pipe.read(junk + 7) == b"." * junk + b"line 0\n"
        while not caplog.messages:
            os.sched_yield()
        terminal.print("line 5")

    assert pipe.read(7) == b"line 5\n"
    assert caplog.messages == ["output was not read; 4 lines left out. Show what happened: herdbeat runs"]


def print_for_ever(terminal: Terminal) -> None:
    while True:
        terminal.print("anybody?")


def test_a_closed_pipe_is_told_by_the_next_line_and_only_once(pipe: Pipe) -> None:
    os.close(pipe.reader)

    with background_output(Terminal(out=pipe.out, err=io.StringIO())) as terminal:
        with pytest.raises(BrokenPipeError):
            print_for_ever(terminal)
        os.dup2(os.open(os.devnull, os.O_WRONLY), pipe.out.fileno())
        terminal.print("to nobody")


def test_the_end_gives_up_a_reader_that_reads_nothing(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "DRAIN_TIMEOUT_S", 0.01)
    pipe.fill()

    with background_output(Terminal(out=pipe.out, err=io.StringIO())) as terminal:
        terminal.print("too late")

    pipe.out.write("goes to /dev/null")
    pipe.out.flush()


def test_a_file_is_written_directly() -> None:
    out = io.StringIO()

    with background_output(Terminal(out=out, err=out)) as terminal:
        assert terminal.out is out
