"""When? The contract of every trigger kind. The kinds themselves live in `herdbeat.triggers`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, runtime_checkable

from herdbeat.domain.decision import Source


class TriggerKind(StrEnum):
    INTERVAL = "interval"
    CRON = "cron"
    DELAY = "delay"
    WEBHOOK = "webhook"
    CHAT = "chat"
    MANUAL = "manual"

    @property
    def waits_for_event(self) -> bool:
        """True for the kinds that the clock never fires: webhook, chat, manual."""
        return self in _EVENT_KINDS

    @property
    def source(self) -> Source:
        """Why a beat of this kind happens when nothing else has a say."""
        return _DEFAULT_SOURCES[self]


_EVENT_KINDS = frozenset({TriggerKind.WEBHOOK, TriggerKind.CHAT, TriggerKind.MANUAL})
_DEFAULT_SOURCES = {
    TriggerKind.INTERVAL: Source.BASELINE_INTERVAL,
    TriggerKind.CRON: Source.BASELINE_CRON,
    TriggerKind.DELAY: Source.DELAY,
    TriggerKind.WEBHOOK: Source.WEBHOOK,
    TriggerKind.CHAT: Source.CHAT,
    TriggerKind.MANUAL: Source.MANUAL,
}


class Trigger(Protocol):
    """A frozen value that says when. Pure: the same arguments give the same answer."""

    @property
    def kind(self) -> TriggerKind: ...

    @property
    def interval(self) -> timedelta | None:
        """The distance kept from the last completion; None if the calendar, or an event, decides.

        Only a paced trigger is stretched by backoff.
        """
        ...

    def next_time(self, last: datetime | None, now: datetime) -> datetime | None:
        """The next nominal instant; None if only an event, or nothing any more, can fire it.

        `last` is when the previous clock beat was settled, None if there was none. Paced kinds count from
        it and may answer with the past (then the beat is overdue); calendar kinds answer strictly after `now`.
        """
        ...

    def dedup_id(self, due_at: datetime, schedule: str) -> str:
        """The id that makes a beat of this trigger unique within its schedule (SEMANTICS 14)."""
        ...

    def variables(self, due_at: datetime, schedule: str) -> Mapping[str, str]:
        """What a prompt may say about this firing: `fire_time`, `source_id`, `title` and their like."""
        ...

    def describe(self) -> str:
        """A short sentence for people: "every 5m", "at 09:00, Monday to Friday"."""
        ...

    def options(self) -> Mapping[str, str]:
        """What `herdbeat.triggers.load_trigger` needs, with `kind`, to build this value again."""
        ...


def event_dedup_id(kind: TriggerKind, event_id: str) -> str:
    """The dedup id of a beat that an event made: `webhook:<delivery>`, `chat:<message>`, `manual:<run>`.

    It follows the event's kind, not the schedule's trigger: a person may start any schedule by hand.
    """
    return f"{kind}:{event_id}"


@runtime_checkable
class CalendarTrigger(Protocol):
    """A trigger whose instants exist whether anybody looks or not, so that those of a long gap can be counted."""

    def next_time(self, last: datetime | None, now: datetime) -> datetime | None: ...

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants lie in (after, until], by arithmetic."""
        ...

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The newest instant in (after, until]; None if there is none."""
        ...
