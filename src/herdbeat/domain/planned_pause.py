"""Planned pauses: times in which schedules do not run, written down before they begin."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseWindow:
    """A planned pause of one schedule, from `from_at` up to, not including, `until`."""

    id: int
    from_at: datetime
    until: datetime
    by: str = ""
    reason: str = ""

    def contains(self, at: datetime) -> bool:
        return self.from_at <= at < self.until


def find_window(windows: Iterable[PauseWindow], at: datetime) -> PauseWindow | None:
    """Return the window that holds a moment; of several, the one that ends last."""
    return max((each for each in windows if each.contains(at)), key=lambda each: each.until, default=None)


def find_next_start(windows: Iterable[PauseWindow], after: datetime) -> datetime | None:
    """Return when the next window begins; None if none does."""
    return min((each.from_at for each in windows if each.from_at > after), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPause:
    """A planned pause as it was asked for. Its selection is resolved again whenever schedules come or change.

    `ended_at` is when somebody cancelled it; `schedules` is how many it holds now.
    """

    id: int
    selection: Selection
    from_at: datetime
    until: datetime
    by: str
    reason: str
    created_at: datetime
    ended_at: datetime | None = None
    ended_by: str = ""
    schedules: int = 0

    def is_over(self, now: datetime) -> bool:
        return self.ended_at is not None or self.until <= now

    def is_active(self, now: datetime) -> bool:
        return not self.is_over(now) and self.from_at <= now
