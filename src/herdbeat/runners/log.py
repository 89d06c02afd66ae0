"""The log of one run: what it printed and what we have to say about it, one JSON record a piece.

`<state>/logs/<day>/<run>.jsonl`, readable by us alone. A record is `{"at", "stream", "text"}` and holds whatever
arrived at once, so a record may hold many lines or a part of one; `jq -j .text` gives back what was printed, and
`log_reader` gives lines. (A record per line made a child that prints `y` without end stop the node for a third of a
second per read.)
"""

import json
import logging
import os
import shutil
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id

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
