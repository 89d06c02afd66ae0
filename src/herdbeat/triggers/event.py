"""What `webhook`, `chat` and `manual` have in common: the clock never fires them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Self

from herdbeat.domain.trigger import TriggerKind
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.variables import beat_variables


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """Waits for its event. Who may send it, and what is done with it, are policies of the schedule."""

    kind: ClassVar[TriggerKind]
    title: ClassVar[str]
    sentence: ClassVar[str]

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:  # noqa: ARG003 -- there are none to read
        return cls()

    @property
    def interval(self) -> None:
        return None

    def next_time(self, last: datetime | None, now: datetime) -> None:  # noqa: ARG002 -- the contract of Trigger
        return None

    def dedup_id(self, due_at: datetime, schedule: str) -> str:  # noqa: ARG002 -- the contract of Trigger
        """The id of a beat that a one-shot hint made; an event's own id is `event_dedup_id(kind, id)`."""
        return f"{self.kind}:{format_timestamp(due_at)}"

    def variables(self, due_at: datetime, schedule: str) -> dict[str, str]:
        return beat_variables(
            due_at=due_at, schedule=schedule, source_id=self.dedup_id(due_at, schedule), title=self.title
        )

    def describe(self) -> str:
        return self.sentence

    def options(self) -> dict[str, str]:
        return {}


# `chat`: when somebody writes in a bound channel.


@dataclass(frozen=True, slots=True)
class Chat(EventTrigger):
    kind: ClassVar[TriggerKind] = TriggerKind.CHAT
    title: ClassVar[str] = "Chat trigger"
    sentence: ClassVar[str] = "on every message in its channel"


# `manual`: when somebody asks for it.


@dataclass(frozen=True, slots=True)
class Manual(EventTrigger):
    kind: ClassVar[TriggerKind] = TriggerKind.MANUAL
    title: ClassVar[str] = "Manual trigger"
    sentence: ClassVar[str] = "only by hand"


# `webhook`: when somebody calls its address.


@dataclass(frozen=True, slots=True)
class Webhook(EventTrigger):
    kind: ClassVar[TriggerKind] = TriggerKind.WEBHOOK
    title: ClassVar[str] = "Webhook trigger"
    sentence: ClassVar[str] = "on every accepted webhook call"
