"""The only place that asks what time it is."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time as aware UTC. Ask once per decision and pass `now` along."""

    def now(self) -> datetime: ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)
