"""`webhook`, `chat` and `manual` triggers: only an event makes them due, never the clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Self

from herdbeat.domain.trigger import TriggerKind
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.variables import beat_variables


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """A trigger that waits for its event. Policies of the schedule decide which events are accepted."""

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
    sentence = "only by hand"


class Webhook(EventTrigger):
    kind = TriggerKind.WEBHOOK
    title = "Webhook trigger"
    sentence = "on every accepted webhook call"
