"""What the governor looks at: one schedule, as it stands right now."""

from dataclasses import dataclass, replace
from datetime import datetime

from herdbeat.domain.hint import Hint
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.timing import TimingPolicy

PAUSED_BY_POLICY = "policy"
"""Who has paused a schedule that did so itself, by `pause_after_failures`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A hold on a schedule, with author and reason. Without `until` it lasts until somebody resumes."""

    until: datetime | None = None
    by: str = ""
    reason: str = ""

    def is_active(self, now: datetime) -> bool:
        return self.until is None or self.until > now


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """The changing part beside the fixed `timing`.

    `anchor_at` is where intervals and limits are measured from: the last settled clock beat, else creation
    or enabling. `is_new` says that there was no such beat yet.
    """

    schedule: str
    timing: TimingPolicy
    anchor_at: datetime
    is_new: bool = False
    failures: int = 0
    runs: int = 0
    hints: tuple[Hint, ...] = ()
    pause: Pause | None = None
    enabled: bool = True

    @classmethod
    def fresh(cls, schedule: Schedule, now: datetime) -> "ScheduleState":
        """A schedule that was created this moment."""
        timing = TimingPolicy.from_policies(schedule.trigger, schedule.policies)
        return cls(schedule=schedule.id, timing=timing, anchor_at=now, is_new=True, enabled=schedule.enabled)

    def settled(self, due_at: datetime, finished_at: datetime) -> "ScheduleState":
        """The state right after a successful run. The claim of `due_at` has used up one-shots up to it."""
        remaining = tuple(hint for hint in self.hints if hint.at is None or hint.at > due_at)
        return replace(self, anchor_at=finished_at, is_new=False, failures=0, runs=self.runs + 1, hints=remaining)
