"""The change log: one entry for every pause, hint, edit and other command, with the values before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

ChangeData = Mapping[str, object]
"""The changed values only, as JSON."""


class ChangeKind(StrEnum):
    """What was done. The first three come from applying files, the others from commands of people and programs."""

    ADD = "add"
    EDIT = "edit"
    REMOVE = "remove"
    PAUSE = "pause"
    RESUME = "resume"
    DISABLE = "disable"
    ENABLE = "enable"
    HINT = "hint"
    CLEAR_HINTS = "clear_hints"
    RESTORE_HINTS = "restore_hints"
    RESET = "reset"
    SKIP = "skip"
    CANCEL = "cancel"
    RETRY = "retry"
    BACKFILL = "backfill"
    RELEASE = "release"
    ACK = "ack"
    SNOOZE = "snooze"
    PLAN_PAUSE = "plan_pause"
    CANCEL_PAUSE = "cancel_pause"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changed what, and when. `subject` is `target/schedule`, or a target alone. The store assigns `id`."""

    at: datetime
    who: str
    what: ChangeKind
    subject: str
    before: ChangeData | None = None
    after: ChangeData | None = None
    id: int = 0
