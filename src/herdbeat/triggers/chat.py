"""`chat`: when somebody writes in a bound channel."""

from dataclasses import dataclass
from typing import ClassVar

from herdbeat.domain.trigger import TriggerKind
from herdbeat.triggers.event import EventTrigger


@dataclass(frozen=True, slots=True)
class Chat(EventTrigger):
    kind: ClassVar[TriggerKind] = TriggerKind.CHAT
    title: ClassVar[str] = "Chat trigger"
    sentence: ClassVar[str] = "on every message in its channel"
