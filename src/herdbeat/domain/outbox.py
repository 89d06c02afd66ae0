"""Deliveries: what hooks and notifications have to send, as the ledger keeps it until the receiver has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class DeliveryKind(StrEnum):
    """What a delivery belongs to."""

    HOOK = "hook"
    NOTIFICATION = "notification"
    CHAT = "chat"


class DeliveryState(StrEnum):
    """Where a delivery is. The first two are open."""

    PENDING = "pending"
    STARTED = "started"  # only of programs: it may have run, so it is never started again
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"  # its node died after the start: nobody knows how far the program came

    @property
    def is_open(self) -> bool:
        return self in (DeliveryState.PENDING, DeliveryState.STARTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """One message to one receiver. `message_id` stays the same however often it is sent.

    `channel` names the receiver: of one channel, one message is sent at a time. `spec` says what kind of receiver it is
    and where; `notify` in it refers to a channel of the fleet. With `host`, only nodes of that machine deliver it. One
    that `is_once` is started at most once.
    """

    message_id: str
    channel: str
    kind: DeliveryKind
    name: str
    spec: Mapping[str, object] = field(repr=False)
    payload: Mapping[str, object] = field(repr=False)
    run_id: int | None = None
    host: str | None = None
    is_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord(NewDelivery):
    """A delivery in the ledger. `fence` is the sender that has it, until `next_at`; 0 if none has."""

    id: int
    state: DeliveryState
    attempts: int
    next_at: datetime
    fence: int
    created_at: datetime
    ended_at: datetime | None = None
    error: str = ""
