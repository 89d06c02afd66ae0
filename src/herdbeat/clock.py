"""The only place that asks what time it is."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time as aware UTC. Ask once per decision and pass `now` along."""

    def now(self) -> datetime: ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetClock:
    """Another one's time by our own clock: `by` is how far that one is ahead of us."""

    base: Clock
    offset: timedelta

    def now(self) -> datetime:
        return self.base.now() + self.offset
