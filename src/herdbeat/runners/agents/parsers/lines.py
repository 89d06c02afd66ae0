"""Bytes to lines, and lines to JSON objects whose values are read by type: what all parsers share.

Output is untrusted: it may be cut anywhere, be no JSON, nest without end, or have lines of any length.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is dropped while it arrives, so that no line of a run takes more memory than this."""
MAX_ANSWER_BYTES = 64 * 1024
MAX_TEXT_CHARS = 1_000_000
"""One text of an agent in an event. The log on disk has all of it."""
MAX_DETAIL_CHARS = 200
"""The input or result of a tool in an event."""

_DROPPED_LINE_PREFIX = 4_096
_LAST_LINE_TAIL = 1_000
_MAX_COUNT = 2**53

JsonObject = Mapping[str, object]

_ANSI_SEQUENCE_PATTERN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*|[@-Z\\-_])")
_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"} | {0: "\ufffd"}


class OutputLine(NamedTuple):
    """A line without its LF. Of a dropped line `data` is the beginning."""

    data: bytes
    size: int

    @property
    def is_dropped(self) -> bool:
        return self.size > len(self.data)


class LineSplitter:
    """Joins chunks of bytes to lines, however they are cut. `flush` returns a last line that has no LF."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._buffer = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[OutputLine]:
        first, *others = data.split(b"\n")
        self._append(first)
        if not others:
            return []
        lines = [self._take(), *map(self._to_line, others[:-1])]
        self._append(others[-1])
        return lines

    def feed_block(self, data: bytes) -> tuple[OutputLine | None, bytes | None]:
        """Return the line that this chunk completes, and the further whole lines in it, unsplit; None without any."""
        first, newline, others = data.partition(b"\n")
        self._append(first)
        if not newline:
            return None, None
        line = self._take()
        block, newline, rest = others.rpartition(b"\n")
        self._append(rest)
        return line, block if newline else None

    def flush(self) -> list[OutputLine]:
        return [self._take()] if self._size else []

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._max_line_bytes:
            self._buffer += part
            return
        self._buffer += part[:_DROPPED_LINE_PREFIX]
        del self._buffer[_DROPPED_LINE_PREFIX:]

    def _to_line(self, part: bytes) -> OutputLine:
        kept = part if len(part) <= self._max_line_bytes else part[:_DROPPED_LINE_PREFIX]
        return OutputLine(kept, len(part))

    def _take(self) -> OutputLine:
        line = OutputLine(bytes(self._buffer), self._size)
        self._buffer.clear()
        self._size = 0
        return line


class AnswerBuffer:
    """The final text of an agent as it grows: its beginning up to 64 KiB, and enough of its end for the last line."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""

    def set(self, text: str) -> None:
        self._head, self._tail = "", ""
        self.append(text)

    def append(self, text: str) -> None:
        self._head += text[: max(0, MAX_ANSWER_BYTES - len(self._head))]
        self._tail = (self._tail + text[-_LAST_LINE_TAIL:])[-_LAST_LINE_TAIL:]

    @property
    def text(self) -> str:
        return cap_bytes(self._head.strip(), MAX_ANSWER_BYTES)

    @property
    def last_line(self) -> str:
        return self._tail.strip().rpartition("\n")[2].strip()


def parse_object(data: bytes) -> JsonObject | None:
    """Return the JSON object of a line; None for anything else."""
    if data.lstrip()[:1] != b"{":
        return None
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):  # also bytes that are not UTF-8, and integers of thousands of digits
        return None
    return value if isinstance(value, dict) else None


def decode_line(data: bytes) -> str:
    return clean_text(data.decode("utf-8", "replace")).rstrip()


def get_object(value: JsonObject, *path: str) -> JsonObject:
    """Return the object at a path of keys; an empty one if there is none."""
    for key in path:
        found = value.get(key)
        if not isinstance(found, dict):
            return {}
        value = found
    return value


def get_objects(value: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects in a list. Whatever else is in it is left out."""
    found = value.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def get_text(value: JsonObject, key: str, limit: int = MAX_TEXT_CHARS) -> str:
    found = value.get(key)
    return clean_text(found, limit) if isinstance(found, str) else ""


def get_word(value: JsonObject, key: str) -> str:
    """Return a short text, such as an id, a name or a status."""
    return get_text(value, key, MAX_DETAIL_CHARS)


def get_count(value: JsonObject, key: str) -> int:
    """Return a number of tokens or turns; 0 if it is missing or no plausible count."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return 0
    return int(found) if 0 < found < _MAX_COUNT else 0


def get_amount(value: JsonObject, key: str) -> float | None:
    """Return a finite number that is not negative; None if there is none."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1e15:
        return None
    return float(found)


def get_status(value: JsonObject, key: str) -> int | None:
    """Return an HTTP status; None if it is missing."""
    return get_count(value, key) or None


def clean_text(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return text that every store and terminal takes: no control characters, no NUL, no lone surrogates."""
    plain = _ANSI_SEQUENCE_PATTERN.sub("", text[:limit])
    return plain.translate(_CONTROLS).encode("utf-8", "replace").decode()


def cap_bytes(text: str, limit: int) -> str:
    """Return the beginning of a text that is at most so many bytes long in UTF-8."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


_SUMMARY_KEYS = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt", "name")


def summarize(value: object) -> str:
    """Return the input or the output of a tool as one short line: its most telling part if that is known."""
    if isinstance(value, dict):
        told = next((value[key] for key in _SUMMARY_KEYS if isinstance(value.get(key), str)), None)
        value = _dump(value) if told is None else told
    elif isinstance(value, list):
        value = _first_text(value)
    if value is None or value == "":
        return ""
    line = " ".join(clean_text(str(value), 10 * MAX_DETAIL_CHARS).split())
    return line if len(line) <= MAX_DETAIL_CHARS else line[: MAX_DETAIL_CHARS - 1] + "…"


def _dump(value: object) -> str:
    try:
        return "" if value == {} else json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


def _first_text(blocks: Sequence[object]) -> str:
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return next((text for text in texts if isinstance(text, str)), "") or _dump(blocks)
