"""Refused calls: time, caller, size and reason of the newest ones, never their body.

The server keeps them in memory and in a file of its own: a flood of bad calls must not reach the ledger.
"""

import json
import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from herdbeat.errors import truncate_for_message
from herdbeat.service.serialize import JsonObject
from herdbeat.timestamps import format_timestamp, parse_stored_timestamp

FILE_NAME = "refused-calls.json"
MAX_CALLS = 500
MAX_CALLS_PER_SCHEDULE = 50
MAX_TEXT_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A call that got no beat.

    `size` is in bytes, as far as they were read; `status` is the HTTP status of the answer.
    """

    at: datetime
    schedule: str
    peer: str
    size: int
    status: int
    reason: str
    detail: str = ""

    def to_json(self) -> JsonObject:
        return {
            "at": format_timestamp(self.at),
            "schedule": self.schedule,
            "peer": self.peer,
            "size": self.size,
            "status": self.status,
            "reason": self.reason,
            "detail": self.detail,
        }


class RefusedCalls:
    """The newest refused calls: so many of each schedule, and so many in all."""

    def __init__(self, calls: Iterable[RefusedCall] = ()) -> None:
        self._calls: deque[RefusedCall] = deque(calls, maxlen=MAX_CALLS)
        self.is_saved = True

    def add(self, call: RefusedCall) -> None:
        same = [each for each in self._calls if each.schedule == call.schedule]
        if len(same) >= MAX_CALLS_PER_SCHEDULE:
            self._calls.remove(same[0])
        self._calls.append(call)
        self.is_saved = False

    def newest(self, schedule: str | None = None) -> list[RefusedCall]:
        return [each for each in reversed(self._calls) if schedule is None or each.schedule == schedule]

    def take_unsaved(self) -> str:
        """Return the content of the file, which counts as saved from now on."""
        self.is_saved = True
        return json.dumps({"items": [each.to_json() for each in self._calls]})


def save_refused_calls(state_dir: Path, content: str) -> None:
    """Write the file, for this user alone, and replace the old one at once. Raises OSError."""
    temporary = state_dir / f"{FILE_NAME}.new"
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    temporary.replace(state_dir / FILE_NAME)


def load_refused_calls(state_dir: Path) -> RefusedCalls:
    """Return what the file has; nothing if there is none, or it is damaged."""
    try:
        items = json.loads((state_dir / FILE_NAME).read_text(encoding="utf-8"))["items"]
        return RefusedCalls([_read_call(item) for item in items])
    except (OSError, ValueError, KeyError, TypeError):
        return RefusedCalls()


def clean_text(text: str) -> str:
    """Return words of a caller as one printable line."""
    return truncate_for_message(text, MAX_TEXT_CHARS)


def _read_call(item: Mapping[str, Any]) -> RefusedCall:
    return RefusedCall(
        at=parse_stored_timestamp(item["at"]),
        schedule=str(item["schedule"]),
        peer=str(item["peer"]),
        size=int(item["size"]),
        status=int(item["status"]),
        reason=str(item["reason"]),
        detail=str(item["detail"]),
    )
