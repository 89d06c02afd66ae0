"""Reads the log of a run back as lines, also while it is still being written."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.domain.ids import short_id
from herdbeat.runners.log import LOGS, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output, without its end, and when its first letter arrived."""

    at: datetime
    stream: Stream
    text: str


def find_log(state_dir: Path, run_id: int) -> Path | None:
    """The log of a run; None if it never said anything, or its day was pruned."""
    return max((state_dir / LOGS).glob(f"*/{short_id(run_id)}.jsonl"), default=None)


def place_of_log(state_dir: Path, run_id: int, claimed_at: datetime, until: datetime) -> Path | None:
    """The same for a run whose days are known: cheap enough to be asked until there is a first word."""
    day = claimed_at.date()
    while day <= until.date():
        path = state_dir / LOGS / day.isoformat() / f"{short_id(run_id)}.jsonl"
        if path.exists():
            return path
        day += timedelta(days=1)
    return None


def read_log(path: Path) -> list[Line]:
    """All of it, also a last line that was not ended."""
    follower = LogFollower(path)
    return [*follower.more(), *follower.rest()]


def read_kept(text: str) -> list[Line]:
    """The same for a log that came out of the ledger."""
    follower = KeptLog(text)
    return [*follower.more(), *follower.rest()]


class LogFollower:
    """Gives what has come since it was last asked. A line is given when it is whole, or by `rest`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._open: dict[Stream, Line] = {}

    def more(self) -> Iterator[Line]:
        """The lines that have become whole. Nothing if the file is not there yet."""
        data = self._read()
        whole = data[: data.rfind(b"\n") + 1]
        self._pass(whole)
        for record in whole.split(b"\n"):
            piece = _piece(record)
            if piece is not None:
                yield from self._lines(piece)

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                return file.read()
        except FileNotFoundError:
            return b""

    def _pass(self, whole: bytes) -> None:
        self._offset += len(whole)

    def rest(self) -> Iterator[Line]:
        """What was printed last without an end of line."""
        yield from self._open.values()
        self._open = {}

    def _lines(self, piece: Line) -> Iterator[Line]:
        begun = self._open.pop(piece.stream, None)
        first, *others = piece.text.split("\n")
        lines = [_joined(begun, piece, first), *(Line(at=piece.at, stream=piece.stream, text=each) for each in others)]
        last = lines.pop()
        if last.text:
            self._open[piece.stream] = last
        yield from lines


class KeptLog(LogFollower):
    """The same for a log that came out of the ledger."""

    def __init__(self, text: str) -> None:
        super().__init__(Path())
        self._data = text.encode("utf-8", "replace")

    def _read(self) -> bytes:
        return self._data[self._offset :]


class SharedLog(LogFollower):
    """The same for a run of another node, of whose log the ledger has the end, and now and then a newer one.

    What was said between two ends that do not meet is only in the log beside that node.
    """

    def __init__(self, fetch: Callable[[], str | None]) -> None:
        super().__init__(Path())
        self._fetch = fetch
        self._last = b""

    def _read(self) -> bytes:
        data = (self._fetch() or "").encode("utf-8", "replace")
        known = data.rfind(self._last) if self._last else -1
        return data if known < 0 else data[known + len(self._last) :]

    def _pass(self, whole: bytes) -> None:
        if whole:
            self._last = whole[whole.rfind(b"\n", 0, -1) + 1 :]


def end_of_log(path: Path, most: int) -> str:
    """The last records of a log, whole ones only."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - most))
        data = file.read()
    if size > most:
        data = data[data.find(b"\n") + 1 :]
    return data.decode("utf-8", "replace")


def _joined(begun: Line | None, piece: Line, text: str) -> Line:
    if begun is None:
        return Line(at=piece.at, stream=piece.stream, text=text)
    return Line(at=begun.at, stream=piece.stream, text=begun.text + text)


def _piece(record: bytes) -> Line | None:
    """None for a record that a full disk or a crash has torn: the others are still worth reading."""
    try:
        found = json.loads(record)
        return Line(at=datetime.fromisoformat(found["at"]), stream=Stream(found["stream"]), text=str(found["text"]))
    except (ValueError, KeyError, TypeError):
        return None
