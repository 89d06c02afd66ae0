"""The log of a run: what it printed and herdbeat's notes about it. Written as records, read back as lines.

The file is `<state>/logs/<day>/<run>.jsonl`, readable by its owner only. A record is `{"at", "stream", "text"}` and
holds what arrived at once: many lines, or a part of one. `jq -j .text` prints what the run printed; `LogFollower`
returns lines, also while the run still writes. (With a record per line, a child that printed `y` without end blocked
the node for a third of a second per read.)
"""

import errno
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id
from herdbeat.redaction import redact_known

log = logging.getLogger(__name__)

LOGS_FOLDER = "logs"
"""The folder in the state directory; it has one folder per day."""
LOG_SUFFIX, RAW_SUFFIX = ".jsonl", ".raw"
_PART = re.compile(r'^\{"at": "[^"]*", "stream": "note", "text": "", "part": (\d+)\}$', re.MULTILINE)
_MAX_PART_BYTES = 4 * 1024 * 1024
"""More than the parts of a log from elsewhere that arrive at once."""

_MAX_PARTIAL_BYTES = 256 * 1024
_MAX_SECRET_BYTES = 16 * 1024
"""As much of a line that has no end yet is held back: a secret may begin in it."""

_opened_logs: ContextVar[list[Path] | None] = ContextVar("opened_logs", default=None)


def track_opened_logs() -> list[Path]:
    """Return a list that gets the path of every log opened from now on in this task and in tasks that it starts.

    Searching for the file after every run halved the throughput, because every file operation releases the GIL.
    """
    paths: list[Path] = []
    _opened_logs.set(paths)
    return paths


class LogStream(StrEnum):
    OUT = "out"
    ERR = "err"
    NOTE = "note"


class RunLog:
    """Writes the log of one run. The file is created by the first record: a run without output has none.

    When `cap` is reached, only notes are added. An error of the disk never fails the run.
    """

    def __init__(self, state_dir: Path, run_id: int, clock: Clock, cap: int) -> None:
        self._state_dir = state_dir
        self._run_id = run_id
        self._clock = clock
        self._bytes_left = cap
        self._file: int | None = None
        self._is_broken = False

    @property
    def is_full(self) -> bool:
        return self._bytes_left <= 0 or self._is_broken

    def write(self, stream: LogStream, text: str) -> None:
        """Add a record. It is not buffered, so followers of the file see it at once."""
        if self.is_full or not text:
            return
        self._bytes_left -= len(text)
        self._append(stream, text)
        if self._bytes_left <= 0:
            self.note("the log is full: only the end of the remaining output is kept")

    def note(self, text: str) -> None:
        """Add a note by herdbeat itself, also to a full log."""
        self.write_uncapped(LogStream.NOTE, text + "\n")

    def write_uncapped(self, stream: LogStream, text: str) -> None:
        """Add a record, also to a full log."""
        if not self._is_broken:
            self._append(stream, text)

    def mark_part(self, number: int) -> None:
        """Remember that this part of a log from elsewhere is complete. `find_last_part` finds it; nobody else does."""
        if not self._is_broken:
            self._append(LogStream.NOTE, "", part=number)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, stream: LogStream, text: str, **more: int) -> None:
        now = self._clock.now()
        record = {"at": now.isoformat(), "stream": stream, "text": redact_known(text), **more}
        data = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            if self._file is None:
                self._file = self._open(now)
            os.write(self._file, data)
        except OSError as error:
            self._is_broken = True
            run = format_short_id(self._run_id)
            log.warning("run log stopped run=%s error=%s the run continues", run, error)

    def _open(self, now: datetime) -> int:
        logs = self._state_dir / LOGS_FOLDER
        name = f"{format_short_id(self._run_id)}{LOG_SUFFIX}"
        file = open_log_file(logs, now.date(), name)
        if (paths := _opened_logs.get()) is not None:
            paths.append(logs / now.date().isoformat() / name)
        return file


class RawOutput:
    """Keeps the lines of an agent's CLI as they came, in `<run>.raw` beside the log, up to `cap` bytes.

    The log has what a person reads; this is for programs, and for what the log folds. Registered secrets are hidden.
    """

    def __init__(self, state_dir: Path, run_id: int, clock: Clock, cap: int) -> None:
        self._folder = state_dir / LOGS_FOLDER
        self._name = format_short_id(run_id)
        self._clock = clock
        self._bytes_left = cap
        self._partial_line = bytearray()
        self._file: int | None = None

    def write(self, chunk: bytes) -> None:
        """Add what arrived. It is written by whole lines, so that a secret is never cut in two."""
        if self._bytes_left <= 0:
            return
        lines, newline, rest = chunk.rpartition(b"\n")
        if newline:
            self._append(_redact_bytes(self._partial_line + lines + newline))
            self._partial_line.clear()
        self._partial_line += rest
        if len(self._partial_line) > _MAX_PARTIAL_BYTES:
            # Not by the whole line: one of 10 MB, copied with every chunk, kept the loop busy for seconds.
            redacted = _redact_bytes(self._partial_line)
            self._append(redacted[:-_MAX_SECRET_BYTES])
            self._partial_line = bytearray(redacted[-_MAX_SECRET_BYTES:])

    def close(self) -> None:
        self._append(_redact_bytes(self._partial_line))
        self._partial_line.clear()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, data: bytes) -> None:
        kept = data[: max(0, self._bytes_left)]
        if not kept:
            return
        self._bytes_left -= len(data)
        try:
            if self._file is None:
                self._file = open_log_file(self._folder, self._clock.now().date(), f"{self._name}{RAW_SUFFIX}")
            os.write(self._file, kept)
        except OSError as error:
            self._bytes_left = 0
            log.warning("raw output stopped run=%s error=%s the run continues", self._name, error)


def _redact_bytes(data: bytes | bytearray) -> bytes:
    return redact_known(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def open_log_file(logs: Path, day: date, name: str) -> int:
    """Open a file of a day's folder for appending, readable by this user only. Raises OSError."""
    folder = logs / day.isoformat()
    for each in (logs, folder):
        require_no_link(each)  # before mkdir, which would follow it and make the day's folder at the other end
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def require_no_link(folder: Path) -> None:
    """Raises OSError for a symbolic link: one that was planted in the state directory led the logs into /etc."""
    if folder.is_symlink():
        raise OSError(
            errno.ELOOP,
            "it is a symbolic link; herdbeat does not follow symbolic links in its state directory",
            str(folder),
        )


def remove_logs(state_dir: Path, runs: Iterable[tuple[int, datetime, datetime]]) -> int:
    """Remove the logs of these runs (id, claimed at, ended at); return how many there were."""
    paths = [path for run in runs for path in _existing_logs(state_dir, *run)]
    for path in paths:
        path.unlink(missing_ok=True)
        path.with_suffix(RAW_SUFFIX).unlink(missing_ok=True)
    return len(paths)


def prune_logs(state_dir: Path, before: date) -> int:
    """Remove the logs of all days before `before`; return how many days there were."""
    logs = state_dir / LOGS_FOLDER
    days = [] if logs.is_symlink() else [day for day in logs.glob("????-??-??") if day.name < before.isoformat()]
    for folder in days:
        shutil.rmtree(folder, ignore_errors=True)
    return len(days)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of output, without its line break, and when its first character arrived."""

    at: datetime
    stream: LogStream
    text: str


def find_log(state_dir: Path, run_id: int) -> Path | None:
    """Return the log of a run; None if it printed nothing, or its day was pruned."""
    return max((state_dir / LOGS_FOLDER).glob(f"*/{format_short_id(run_id)}{LOG_SUFFIX}"), default=None)


def find_last_part(state_dir: Path, run_id: int) -> int:
    """Return the number of the last complete part of a log from elsewhere; 0 if there is none."""
    path = find_log(state_dir, run_id)
    marks = [] if path is None else _PART.findall(read_log_tail(path, _MAX_PART_BYTES))
    return int(marks[-1]) if marks else 0


def find_raw_output(state_dir: Path, run_id: int) -> Path | None:
    """Return the lines of an agent's CLI as they came; None if the run has none, or its day was pruned."""
    return max((state_dir / LOGS_FOLDER).glob(f"*/{format_short_id(run_id)}{RAW_SUFFIX}"), default=None)


def locate_log(state_dir: Path, run_id: int, claimed_at: datetime, until: datetime) -> Path | None:
    """Return the same for a run whose days are known, which is cheap enough to poll for."""
    return next(_existing_logs(state_dir, run_id, claimed_at, until), None)


def _existing_logs(state_dir: Path, run_id: int, claimed_at: datetime, until: datetime) -> Iterator[Path]:
    """Yield the logs of a run.

    A log is in the folder of the day of its first record. There may be two: a precheck before midnight, its run after.
    """
    for day in range((until.date() - claimed_at.date()).days + 1):
        folder = state_dir / LOGS_FOLDER / (claimed_at.date() + timedelta(days=day)).isoformat()
        path = folder / f"{format_short_id(run_id)}{LOG_SUFFIX}"
        if path.exists():
            yield path


def read_log(path: Path) -> list[LogLine]:
    """Return all lines, including a last one without a line break."""
    follower = LogFollower(path)
    return [*follower.poll(), *follower.flush()]


def read_stored_log(text: str) -> list[LogLine]:
    """Return all lines of a log that is stored in the ledger."""
    follower = RemoteLogFollower(lambda: text)
    return [*follower.poll(), *follower.flush()]


class LogFollower:
    """Reads a log while it is written. `poll` returns complete lines; `flush` the rest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._partial_lines: dict[LogStream, LogLine] = {}

    def poll(self) -> Iterator[LogLine]:
        """Yield the lines completed since the last call. Nothing if the file does not exist yet."""
        data = self._read()
        complete = data[: data.rfind(b"\n") + 1]
        self._advance(complete)
        for record in complete.split(b"\n"):
            if (piece := _parse_record(record)) is not None:
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
        """Yield the last lines of the streams that have no line break."""
        yield from self._partial_lines.values()
        self._partial_lines = {}

    def _split_lines(self, piece: LogLine) -> Iterator[LogLine]:
        stream = piece.stream
        partial = self._partial_lines.pop(stream, LogLine(at=piece.at, stream=stream, text=""))
        first, *others = piece.text.split("\n")
        lines = [replace(partial, text=partial.text + first), *(replace(piece, text=text) for text in others)]
        last = lines.pop()
        if last.text:
            self._partial_lines[stream] = last
        yield from lines


class RemoteLogFollower(LogFollower):
    """Follows a run of another node, whose last records that node stores in the ledger from time to time.

    Records between two stored parts that do not overlap are only in the file on that node.
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
    """Return the last complete records of a log."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - max_bytes))
        data = file.read()
    if size > max_bytes:
        data = data[data.find(b"\n") + 1 :]
    return data.decode("utf-8", "replace")


def _parse_record(record: bytes) -> LogLine | None:
    """Return None for a record that a full disk or a crash cut off, so that the others can still be read."""
    try:
        data = json.loads(record)
        return LogLine(at=datetime.fromisoformat(data["at"]), stream=LogStream(data["stream"]), text=str(data["text"]))
    except (ValueError, KeyError, TypeError):
        return None
