"""Calls of webhooks: those that become events of a schedule, and those that are refused."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.trigger import TriggerKind

MAX_EVENT_ID_BYTES = 190
"""Of an event's id. With its prefix it stays below the limit of a dedup id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingEvent:
    """A verified call for one schedule. `event_id` is what its sender calls the delivery; `data` is JSON.

    `digest` identifies the signed content if the sender does not sign the id: the same content under another id is a
    replay. A call that `is_filtered` did not meet the `when` of its schedule.
    """

    schedule: int
    event_id: str
    data: str = ""
    origin: str = ""
    digest: str = ""
    is_filtered: bool = False
    kind: TriggerKind = TriggerKind.WEBHOOK


class EventAnswer(StrEnum):
    """The outcome of an event."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"  # its id has a beat already
    REPLAYED = "replayed"  # its content was accepted under another id
    FILTERED = "filtered"
    FULL = "full"  # as many beats wait as `max_queued` allows
    DISABLED = "disabled"
    UNKNOWN = "unknown"  # the schedule is gone, or takes no calls


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
