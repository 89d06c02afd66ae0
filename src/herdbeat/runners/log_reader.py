"""Reads the log of a run back as lines, also while it is still being written."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.domain.ids import format_short_id
from herdbeat.runners.log import LOGS_FOLDER, LogStream


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
