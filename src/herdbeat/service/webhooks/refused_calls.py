"""Refused calls: time, caller, size and reason of the newest ones, never their body.

The server keeps them in memory, and in a file of its own: a flood of bad calls must not reach the writer of the ledger.
Servers that share a database keep them in a table of it, so each shows those of all.
"""

import json
import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdbeat.domain.webhook_call import RefusedCall
from herdbeat.errors import truncate_for_message
from herdbeat.service.serialize import JsonObject
from herdbeat.store.location import StoreLocation, add_refused_calls, list_refused_calls
from herdbeat.timestamps import format_timestamp, parse_stored_timestamp

FILE_NAME = "refused-calls.json"
MAX_CALLS = 500
MAX_CALLS_PER_SCHEDULE = 50
MAX_TEXT_CHARS = 160


def serialize_refused_call(call: RefusedCall) -> JsonObject:
    return {
        "at": format_timestamp(call.at),
        "schedule": call.schedule,
        "peer": call.peer,
        "size": call.size,
        "status": call.status,
        "reason": call.reason,
        "detail": call.detail,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsavedCalls:
    """Calls to write: those that a database adds, and all that a file then has."""

    new: tuple[RefusedCall, ...]
    kept: tuple[RefusedCall, ...]


class RefusedCalls:
    """The newest refused calls: so many of each schedule, and so many in all."""

    def __init__(self, calls: Iterable[RefusedCall] = ()) -> None:
        self._calls: deque[RefusedCall] = deque(calls, maxlen=MAX_CALLS)
        self._unsaved: deque[RefusedCall] = deque(maxlen=MAX_CALLS)

    @property
    def is_saved(self) -> bool:
        return not self._unsaved

    @property
    def unsaved(self) -> tuple[RefusedCall, ...]:
        return tuple(self._unsaved)

    def add(self, call: RefusedCall) -> None:
        same = [each for each in self._calls if each.schedule == call.schedule]
        if len(same) >= MAX_CALLS_PER_SCHEDULE:
            self._calls.remove(same[0])
        self._calls.append(call)
        self._unsaved.append(call)

    def newest(self, schedule: str | None = None) -> list[RefusedCall]:
        return [each for each in reversed(self._calls) if schedule is None or each.schedule == schedule]

    def take_unsaved(self) -> UnsavedCalls:
        """Return what is to be written. It counts as saved from now on, unless `put_back` says otherwise."""
        unsaved, self._unsaved = tuple(self._unsaved), deque(maxlen=MAX_CALLS)
        return UnsavedCalls(new=unsaved, kept=tuple(self._calls))

    def put_back(self, unsaved: UnsavedCalls) -> None:
        """They could not be written: the next attempt writes them with the newer ones."""
        self._unsaved.extendleft(reversed(unsaved.new))


def save_refused_calls(location: StoreLocation, unsaved: UnsavedCalls) -> None:
    """Add them to the database, or write the file of this server. Raises OSError, StoreUnavailable."""
    if isinstance(location, Path):
        _write_file(location.parent, json.dumps({"items": [serialize_refused_call(each) for each in unsaved.kept]}))
    else:
        add_refused_calls(location, unsaved.new, most=MAX_CALLS, most_of_schedule=MAX_CALLS_PER_SCHEDULE)


def _write_file(state_dir: Path, content: str) -> None:
    """Write for this user alone, and replace the old file at once."""
    temporary = state_dir / f"{FILE_NAME}.new"
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    temporary.replace(state_dir / FILE_NAME)


def load_refused_calls(location: StoreLocation) -> RefusedCalls:
    """Return what is stored: nothing if there is no file, or it is damaged. Raises StoreUnavailable of a database."""
    if not isinstance(location, Path):
        return RefusedCalls(list_refused_calls(location))
    try:
        items = json.loads((location.parent / FILE_NAME).read_text(encoding="utf-8"))["items"]
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
