"""`manual`: when somebody asks for it."""

from dataclasses import dataclass
from typing import ClassVar

from herdbeat.domain.trigger import TriggerKind
from herdbeat.triggers.event import EventTrigger


@dataclass(frozen=True, slots=True)
class Manual(EventTrigger):
    kind: ClassVar[TriggerKind] = TriggerKind.MANUAL
    title: ClassVar[str] = "Manual trigger"
    sentence: ClassVar[str] = "only by hand"
