"""Notifications: the conditions that people are notified of, their episodes, and the rules of channels."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.policies import ActiveHours


class ConditionKind(StrEnum):
    """What can be wrong."""

    LATE = "late"
    MISSED = "missed"
    FAILING = "failing"
    NEEDS_YOU = "needs_you"
    RATE_LIMITED = "rate_limited"
    BUDGET = "budget"
    NODE_LOST = "node_lost"
    STOPPED = "stopped"


RECOVERED = "recovered"
"""In `conditions:` it means that the end of an episode is reported, too."""

FLEET_SUBJECT = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCondition:
    """Something that is wrong now. `subject` is a schedule, an account or a node; `failures` are those in a row."""

    kind: ConditionKind
    subject: str
    since: datetime
    detail: str = ""
    schedule_id: int | None = None
    tags: tuple[str, ...] = ()
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRules:
    """Which conditions a channel reports, and when."""

    name: str
    conditions: frozenset[ConditionKind]
    tells_end: bool
    failing_after: int = 1
    tags: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    schedules: frozenset[str] = frozenset()
    quiet_hours: ActiveHours | None = None
    digest: str = ""
    group_within: timedelta = timedelta(seconds=30)

    @property
    def is_selective(self) -> bool:
        return bool(self.tags or self.targets or self.schedules)

    def is_quiet(self, moment: datetime) -> bool:
        """Return whether the moment is in the quiet hours: nothing is reported in them."""
        return self.quiet_hours is not None and self.quiet_hours.contains(moment)

    def wants(self, condition: ActiveCondition) -> bool:
        """Return whether the channel reports this condition.

        A condition of the whole fleet is reported by every channel.
        """
        if condition.kind not in self.conditions:
            return False
        if condition.kind is ConditionKind.FAILING and condition.failures < self.failing_after:
            return False
        return condition.schedule_id is None or self.selects(condition.subject, condition.tags)

    def selects(self, schedule: str, tags: tuple[str, ...]) -> bool:
        """Return whether the channel is about this schedule."""
        if not self.is_selective:
            return True
        names = {schedule.partition("/")[0], schedule}
        return bool(self.tags.intersection(tags) or self.targets & names or self.schedules & names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A condition of a subject from its beginning to its end, as one channel reports it.

    `began_at` is since when the condition holds, `opened_at` when that was noticed. `clear_since` is when the condition
    was first gone; it may come back before the episode ends. `told_at` and `end_told_at` are when messages about it
    were written. A snoozed episode is reported later, also if it was reported before. An acknowledged one has been
    seen: its end is not reported.
    """

    id: int
    channel: str
    condition: ConditionKind
    subject: str
    detail: str
    began_at: datetime
    opened_at: datetime
    schedule_id: int | None = None
    clear_since: datetime | None = None
    ended_at: datetime | None = None
    told_at: datetime | None = None
    end_told_at: datetime | None = None
    acked_by: str = ""
    snoozed_until: datetime | None = None

    @property
    def key(self) -> tuple[ConditionKind, str]:
        return self.condition, self.subject
