"""Clocks. Only this module and `scheduler.timers` read the time of the machine; every other function takes `now`."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Returns the current time as aware UTC. Read it once per decision and pass `now` along."""

    def now(self) -> datetime: ...


class SystemClock:
    """The wall clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetClock:
    """The time of another clock, such as the database server's, which is `offset` ahead of `base`."""

    base: Clock
    offset: timedelta

    def now(self) -> datetime:
        return self.base.now() + self.offset
