"""The contract of every trigger kind. The kinds themselves are in `herdbeat.triggers`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from herdbeat.domain.decision import Source
from herdbeat.domain.ids import format_short_id


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
        """The source of a beat that neither a hint nor a limit has moved."""
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


class IntervalAnchor(StrEnum):
    """What the next time of an interval is counted from."""

    END = "end"  # the end of the last run: fixed delay
    START = "start"  # the last due instant: fixed rate


class Trigger(Protocol):
    """A frozen value that says when a schedule is due. Pure: the same arguments give the same result."""

    @property
    def kind(self) -> TriggerKind: ...

    @property
    def interval(self) -> timedelta | None:
        """The distance from the anchor; None if a calendar or an event decides.

        Backoff only lengthens triggers that have an interval.
        """
        ...

    @property
    def anchor(self) -> IntervalAnchor | None:
        """What an interval counts from. From the end of a run, its next time is unknown while it runs."""
        ...

    def next_time(self, last: datetime | None, now: datetime) -> datetime | None:
        """Return the next nominal instant; None if only an event can fire it, or nothing can any more.

        `last` is when the previous clock beat was settled, None if there was none. Interval kinds count from
        it and may return an instant in the past (the beat is then overdue); calendar kinds return an instant
        strictly after `now`.
        """
        ...

    def dedup_id(self, due_at: datetime, schedule: str) -> str:
        """Return the id that makes a beat of this trigger unique within its schedule."""
        ...

    def variables(self, due_at: datetime, schedule: str) -> Mapping[str, str]:
        """Return the variables of this beat for prompts: `fire_time`, `source_id`, `title` and others."""
        ...

    def describe(self) -> str:
        """Return a short description for people: "every 5m", "at 09:00, Monday to Friday"."""
        ...

    def options(self) -> Mapping[str, str]:
        """Return what `herdbeat.triggers.load_trigger` needs, with `kind`, to build an equal value."""
        ...


def event_dedup_id(kind: TriggerKind, event_id: str) -> str:
    """Return the dedup id of a beat made by an event: `webhook:<delivery>`, `chat:<message>`, `manual:<run>`.

    The kind is the event's, not that of the schedule's trigger: any schedule can be started manually.
    """
    return f"{kind}:{event_id}"


_WEBHOOK_PREFIX = event_dedup_id(TriggerKind.WEBHOOK, "")


def is_webhook_id(dedup_id: str) -> bool:
    """Whether a beat was made by a webhook call. A retry of it keeps its id, and what came with it."""
    return dedup_id.startswith(_WEBHOOK_PREFIX)


_MANUAL_PREFIX = event_dedup_id(TriggerKind.MANUAL, "")


def is_manual_id(dedup_id: str) -> bool:
    """Whether a beat was made by hand. A retry of it keeps its id, and what was given with it."""
    return dedup_id.startswith(_MANUAL_PREFIX)


_CHAT_PREFIX = event_dedup_id(TriggerKind.CHAT, "")


def is_chat_id(dedup_id: str) -> bool:
    """Whether a beat was made by a message."""
    return dedup_id.startswith(_CHAT_PREFIX)


_EVENT_PREFIXES = (_WEBHOOK_PREFIX, _MANUAL_PREFIX, _CHAT_PREFIX, "rule:", "backfill:")


def is_event_id(dedup_id: str) -> bool:
    """Whether a beat was not made by the timing of its schedule. A retry of it keeps its id."""
    return dedup_id.startswith(_EVENT_PREFIXES)


_UNSTARTED = "unstarted-"


def create_event_id() -> str:
    """Return an id for a beat by hand that was given none. Once it starts, its run gives it one: `manual:<run id>`."""

    from uuid import uuid4  # noqa: PLC0415 - few commands need it

    return f"{_UNSTARTED}{uuid4().hex}"


def started_dedup_id(dedup_id: str, run_id: int) -> str | None:
    """Return the id that a beat by hand gets with its first run; None for all others, which keep theirs."""
    is_unstarted = dedup_id.startswith(event_dedup_id(TriggerKind.MANUAL, _UNSTARTED))
    return event_dedup_id(TriggerKind.MANUAL, format_short_id(run_id)) if is_unstarted else None


class InstantSeries(ABC):
    """A trigger whose instants do not depend on the end of runs, so those of a gap can be counted by arithmetic.

    With a fixed rate they are counted from a given instant: `after` has to be one of them. A base class and not a
    protocol, because every claim asks for it: `isinstance` with a protocol looks up each of its methods.
    """

    __slots__ = ()

    @abstractmethod
    def next_time(self, last: datetime | None, now: datetime) -> datetime | None: ...

    @abstractmethod
    def count(self, after: datetime, until: datetime) -> int:
        """Return the number of instants in (after, until], by arithmetic."""

    @abstractmethod
    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the newest instant in (after, until]; None if there is none."""


class CalendarTrigger(InstantSeries):
    """A series that is given by the calendar alone: its instants are known from any moment on."""

    __slots__ = ()

    @abstractmethod
    def upcoming(self, after: datetime) -> Iterator[datetime]:
        """Yield all instants strictly after `after`, in order."""
