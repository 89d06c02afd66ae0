"""Reads the log of a run back as lines, also while it is still being written."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id

# The log of one run: what it printed and what we have to say about it, one JSON record a piece.
#
# `<state>/logs/<day>/<run>.jsonl`, readable by us alone. A record is `{"at", "stream", "text"}` and holds whatever
# arrived at once, so a record may hold many lines or a part of one; `jq -j .text` gives back what was printed, and
# `log_reader` gives lines. (A record per line made a child that prints `y` without end stop the node for a third of a
# second per read.)


log = logging.getLogger(__name__)

LOGS_FOLDER = "logs"
"""The folder in the state directory; one folder a day below it."""


_opened_logs: ContextVar[list[Path] | None] = ContextVar("overheard", default=None)


def track_opened_logs() -> list[Path]:
    """Where logs will lie that are begun from here on, in this task and in what it starts.

    Looking for a file after every run cost half the throughput: each look lets go of Python's lock.
    """
    paths: list[Path] = []
    _opened_logs.set(paths)
    return paths


class LogStream(StrEnum):
    OUT = "out"
    ERR = "err"
    NOTE = "note"


class RunLog:
    """Opened by the first word written to it: a run that says nothing leaves no file.

    Full, it keeps its beginning, and takes only notes. A disk that does not take it never fails the run.
    """

    def __init__(self, state_dir: Path, run_id: int, clock: Clock, cap: int) -> None:
        self._folder = state_dir / LOGS_FOLDER
        self._name = format_short_id(run_id)
        self._clock = clock
        self._bytes_left = cap
        self._file: int | None = None
        self._is_broken = False

    @property
    def is_full(self) -> bool:
        return self._bytes_left <= 0 or self._is_broken

    def write(self, stream: LogStream, text: str) -> None:
        """Add a record. It is with the kernel on return, so whoever follows the file sees it."""
        if self.is_full or not text:
            return
        self._bytes_left -= len(text)
        self._append(stream, text)
        if self._bytes_left <= 0:
            self.note("the log is full: from here on only the end of the output is kept")

    def note(self, text: str) -> None:
        """Our own words about the run, full or not: there are few of them."""
        self.write_uncapped(LogStream.NOTE, text + "\n")

    def write_uncapped(self, stream: LogStream, text: str) -> None:
        """Add a record although the log may be full."""
        if not self._is_broken:
            self._append(stream, text)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, stream: LogStream, text: str) -> None:
        now = self._clock.now()
        record = {"at": now.isoformat(), "stream": stream, "text": text}
        data = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            if self._file is None:
                self._file = self._open(now)
            os.write(self._file, data)
        except OSError as error:
            self._is_broken = True
            log.warning("run log given up run=%s error=%s the run itself goes on", self._name, error)

    def _open(self, now: datetime) -> int:
        folder = self._folder / now.date().isoformat()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{self._name}.jsonl"
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        paths = _opened_logs.get()
        if paths is not None:
            paths.append(path)
        return opened


def remove_logs(state_dir: Path, runs: Iterable[tuple[int, datetime, datetime]]) -> int:
    """Remove the logs of these runs (id, claimed, ended); returns how many there were.

    A log lies under the day of its first word, which may be any day of the run.
    """
    removed = 0
    for run_id, claimed_at, ended_at in runs:
        days = range((ended_at.date() - claimed_at.date()).days + 1)
        for path in (_log_path(state_dir, claimed_at + timedelta(days=day), run_id) for day in days):
            if path.exists():
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def _log_path(state_dir: Path, at: datetime, run_id: int) -> Path:
    return state_dir / LOGS_FOLDER / at.date().isoformat() / f"{format_short_id(run_id)}.jsonl"


def prune_logs(state_dir: Path, before: date) -> int:
    """Remove the logs of every day before that one; returns how many days there were."""
    days = [folder for folder in (state_dir / LOGS_FOLDER).glob("????-??-??") if folder.name < before.isoformat()]
    for folder in days:
        shutil.rmtree(folder, ignore_errors=True)
    return len(days)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of output, without its end, and when its first letter arrived."""

    at: datetime
    stream: LogStream
    text: str


def find_log(state_dir: Path, run_id: int) -> Path | None:
    """The log of a run; None if it never said anything, or its day was pruned."""
    return max((state_dir / LOGS_FOLDER).glob(f"*/{format_short_id(run_id)}.jsonl"), default=None)


def locate_log(state_dir: Path, run_id: int, claimed_at: datetime, until: datetime) -> Path | None:
    """The same for a run whose days are known: cheap enough to be asked until there is a first word."""
    day = claimed_at.date()
    while day <= until.date():
        path = state_dir / LOGS_FOLDER / day.isoformat() / f"{format_short_id(run_id)}.jsonl"
        if path.exists():
            return path
        day += timedelta(days=1)
    return None


def read_log(path: Path) -> list[LogLine]:
    """All of it, also a last line that was not ended."""
    follower = LogFollower(path)
    return [*follower.poll(), *follower.flush()]


def read_stored_log(text: str) -> list[LogLine]:
    """The same for a log that came out of the ledger."""
    follower = StoredLogFollower(text)
    return [*follower.poll(), *follower.flush()]


class LogFollower:
    """Gives what has come since it was last asked. A line is given when it is whole, or by `rest`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._open: dict[LogStream, LogLine] = {}

    def poll(self) -> Iterator[LogLine]:
        """The lines that have become whole. Nothing if the file is not there yet."""
        data = self._read()
        complete = data[: data.rfind(b"\n") + 1]
        self._advance(complete)
        for record in complete.split(b"\n"):
            piece = _parse_record(record)
            if piece is not None:
                yield from self._split_lines(piece)

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                return file.read()
        except FileNotFoundError:
            return b""

    def _advance(self, complete: bytes) -> None:
        self._offset += len(complete)

    def flush(self) -> Iterator[LogLine]:
        """What was printed last without an end of line."""
        yield from self._open.values()
        self._open = {}

    def _split_lines(self, piece: LogLine) -> Iterator[LogLine]:
        partial = self._open.pop(piece.stream, None)
        first, *others = piece.text.split("\n")
        lines = [
            _join_line(partial, piece, first),
            *(LogLine(at=piece.at, stream=piece.stream, text=each) for each in others),
        ]
        last = lines.pop()
        if last.text:
            self._open[piece.stream] = last
        yield from lines


class StoredLogFollower(LogFollower):
    """The same for a log that came out of the ledger."""

    def __init__(self, text: str) -> None:
        super().__init__(Path())
        self._data = text.encode("utf-8", "replace")

    def _read(self) -> bytes:
        return self._data[self._offset :]


class RemoteLogFollower(LogFollower):
    """The same for a run of another node, of whose log the ledger has the end, and now and then a newer one.

    What was said between two ends that do not meet is only in the log beside that node.
    """

    def __init__(self, fetch: Callable[[], str | None]) -> None:
        super().__init__(Path())
        self._fetch = fetch
        self._last = b""

    def _read(self) -> bytes:
        data = (self._fetch() or "").encode("utf-8", "replace")
        overlap_at = data.rfind(self._last) if self._last else -1
        return data if overlap_at < 0 else data[overlap_at + len(self._last) :]

    def _advance(self, complete: bytes) -> None:
        if complete:
            self._last = complete[complete.rfind(b"\n", 0, -1) + 1 :]


def read_log_tail(path: Path, max_bytes: int) -> str:
    """The last records of a log, whole ones only."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - max_bytes))
        data = file.read()
    if size > max_bytes:
        data = data[data.find(b"\n") + 1 :]
    return data.decode("utf-8", "replace")


def _join_line(partial: LogLine | None, piece: LogLine, text: str) -> LogLine:
    if partial is None:
        return LogLine(at=piece.at, stream=piece.stream, text=text)
    return LogLine(at=partial.at, stream=piece.stream, text=partial.text + text)


def _parse_record(record: bytes) -> LogLine | None:
    """None for a record that a full disk or a crash has torn: the others are still worth reading."""
    try:
        found = json.loads(record)
        return LogLine(
            at=datetime.fromisoformat(found["at"]), stream=LogStream(found["stream"]), text=str(found["text"])
        )
    except (ValueError, KeyError, TypeError):
        return None
