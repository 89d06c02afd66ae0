"""Trigger kinds: when a schedule is due. `KINDS` is the only list of them.

`webhook`, `chat` and `manual` are defined here: only an event makes them due, never the clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Protocol, Self

from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.domain.webhook import WebhookAuth
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.interval import FixedRate, Interval
from herdbeat.triggers.variables import beat_variables


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """A trigger that waits for an event. Policies of the schedule decide which events are accepted."""

    kind: ClassVar[TriggerKind]
    interval: ClassVar[None] = None
    anchor: ClassVar[None] = None
    title: ClassVar[str]
    sentence: ClassVar[str]

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:  # noqa: ARG003 -- there are none to read
        return cls()

    def next_time(self, last: datetime | None, now: datetime) -> None:  # noqa: ARG002 -- the contract of Trigger
        return None

    def dedup_id(self, due_at: datetime, schedule: str) -> str:  # noqa: ARG002 -- the contract of Trigger
        """Return the id of a beat made by a one-shot hint. The beat of an event has `event_dedup_id(kind, id)`."""
        return f"{self.kind}:{format_timestamp(due_at)}"

    def variables(self, due_at: datetime, schedule: str) -> dict[str, str]:
        return beat_variables(self, due_at, schedule, self.title)

    def describe(self) -> str:
        return self.sentence

    def options(self) -> dict[str, str]:
        return {}


class Chat(EventTrigger):
    kind = TriggerKind.CHAT
    title = "Chat trigger"
    sentence = "on every message in its channel"


class Manual(EventTrigger):
    kind = TriggerKind.MANUAL
    title = "Manual trigger"
    sentence = "only on request"


@dataclass(frozen=True, slots=True)
class Webhook(EventTrigger):
    kind = TriggerKind.WEBHOOK
    title = "Webhook trigger"
    sentence = "on every accepted webhook call"

    auth: WebhookAuth = field(default_factory=WebhookAuth)

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        return cls(auth=WebhookAuth.from_options(options))

    def options(self) -> dict[str, str]:
        return self.auth.to_options()


class TriggerType(Protocol):
    """The class of a trigger kind, which builds triggers from their stored options."""

    def from_options(self, options: Mapping[str, str], /) -> Trigger: ...


KINDS: dict[TriggerKind, TriggerType] = {
    TriggerKind.INTERVAL: Interval,
    TriggerKind.CRON: Cron,
    TriggerKind.DELAY: Delay,
    TriggerKind.WEBHOOK: Webhook,
    TriggerKind.CHAT: Chat,
    TriggerKind.MANUAL: Manual,
}


def load_trigger(kind: TriggerKind | str, options: Mapping[str, str]) -> Trigger:
    """Return the trigger of a stored kind and options: `load_trigger(t.kind, t.options()) == t`."""
    return KINDS[TriggerKind(kind)].from_options(options)


__all__ = [
    "KINDS",
    "Chat",
    "Cron",
    "Delay",
    "FixedRate",
    "Interval",
    "Manual",
    "TriggerType",
    "Webhook",
    "load_trigger",
]
