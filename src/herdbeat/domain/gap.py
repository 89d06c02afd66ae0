"""Time in which nobody could run anything: what makes a beat missed instead of late."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import MissedReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """From the last sign of life to the next one, and what it was."""

    from_at: datetime
    until: datetime
    reason: MissedReason

    def covers(self, instant: datetime) -> bool:
        return self.from_at < instant <= self.until
