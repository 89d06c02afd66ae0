"""What somebody changed: a row for every pause, hint and edit, with what was before and what is after."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

ChangeData = Mapping[str, object]
"""A few words of JSON: only what the change is about."""


class ChangeKind(StrEnum):
    """What can be changed. The first three come from the files, the others from people and machines."""

    ADD = "add"
    EDIT = "edit"
    REMOVE = "remove"
    PAUSE = "pause"
    RESUME = "resume"
    DISABLE = "disable"
    ENABLE = "enable"
    HINT = "hint"
    CLEAR_HINTS = "clear_hints"
    RESET = "reset"
    SKIP = "skip"
    CANCEL = "cancel"
    RETRY = "retry"
    BACKFILL = "backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changed what, and when. `subject` is `target/schedule`, or a target alone. `id` is the ledger's."""

    at: datetime
    who: str
    what: ChangeKind
    subject: str
    before: ChangeData | None = None
    after: ChangeData | None = None
    id: int = 0
