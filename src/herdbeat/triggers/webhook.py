"""`webhook`: when somebody calls its address."""

from dataclasses import dataclass
from typing import ClassVar

from herdbeat.domain.trigger import TriggerKind
from herdbeat.triggers.event import EventTrigger


@dataclass(frozen=True, slots=True)
class Webhook(EventTrigger):
    kind: ClassVar[TriggerKind] = TriggerKind.WEBHOOK
    title: ClassVar[str] = "Webhook trigger"
    sentence: ClassVar[str] = "on every accepted webhook call"
