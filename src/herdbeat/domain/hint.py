"""Hints: temporary requests for another interval or time. A hint may replace the baseline, never exceed the limits."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum

MAX_HINT_TTL = timedelta(days=30)
"""The longest lifetime of a hint, and the longest interval: a longer one would expire before it is due."""


class Rank(IntEnum):
    """The precedence of hint authors. The lower number wins."""

    HUMAN = 1
    AGENT = 2
    RULE = 3
    PLANNER = 4

    @classmethod
    def from_origin(cls, origin: str) -> "Rank":
        """Return the rank of an origin such as `human:you`, `agent:triage`, `rule:surge`, `planner`."""
        return cls[origin.partition(":")[0].upper()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Either an interval (`every`) or one instant (`at`), with author, reason and expiry."""

    origin: str
    expires_at: datetime
    every: timedelta | None = None
    at: datetime | None = None
    reason: str = ""
    created_at: datetime | None = None
    rank: Rank = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.every is None) == (self.at is None):
            raise ValueError("a hint needs either every or at")
        if self.every is not None and self.every <= timedelta(0):
            raise ValueError("a hint's interval must be greater than zero")
        object.__setattr__(self, "rank", Rank.from_origin(self.origin))

    def is_active(self, now: datetime) -> bool:
        """True before its expiry. At the instant of expiry itself it is no longer active."""
        return self.expires_at > now
