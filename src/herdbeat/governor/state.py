"""The input of the governor: the current state of one schedule."""

from dataclasses import dataclass, replace
from datetime import datetime

from herdbeat.domain.hint import Hint
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import IntervalAnchor

PAUSED_BY_POLICY = "policy"
"""The author of a pause that `pause_after_failures` has set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of a schedule, with author and reason. Without `until` it lasts until the schedule is resumed."""

    until: datetime | None = None
    by: str = ""
    reason: str = ""

    def is_active(self, now: datetime) -> bool:
        return self.until is None or self.until > now


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """The fixed `timing` of a schedule, and the values that change from run to run.

    Intervals and limits are measured from `anchor_at`: the last settled clock beat, else the creation or
    enabling of the schedule. `is_new` means that there was no such beat yet.
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
        """Return the state of a schedule that is created now."""
        timing = TimingPolicy.from_policies(schedule.trigger, schedule.policies)
        return cls(schedule=schedule.id, timing=timing, anchor_at=now, is_new=True, enabled=schedule.enabled)

    def settled(self, due_at: datetime, finished_at: datetime) -> "ScheduleState":
        """Return the state right after a successful run. The claim of `due_at` has consumed one-shot hints up to it."""
        remaining = tuple(hint for hint in self.hints if hint.at is None or hint.at > due_at)
        anchor_at = due_at if self.timing.trigger.anchor is IntervalAnchor.START else finished_at
        return replace(self, anchor_at=anchor_at, is_new=False, failures=0, runs=self.runs + 1, hints=remaining)
