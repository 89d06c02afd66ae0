"""What a user may choose per schedule (the policies), each with its default resolved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from herdbeat.durations import format_duration

_MINUTE = timedelta(minutes=1)


class Catchup(StrEnum):
    """What happens to beats that were missed while nothing ran."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class Overlap(StrEnum):
    """What happens to a beat whose schedule is still running."""

    SKIP = "skip"
    QUEUE = "queue"
    QUEUE_ALL = "queue_all"
    CANCEL = "cancel"
    ALLOW = "allow"


class FirstRun(StrEnum):
    """When an interval that never ran is due."""

    NOW = "now"
    AFTER_INTERVAL = "after_interval"


class OnInterrupt(StrEnum):
    """What becomes of a run whose node died."""

    SKIP = "skip"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hard bounds on the distance between two runs. They beat hints, backoff and baseline."""

    at_least: timedelta | None = None
    at_most: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How an interval stretches while it fails: x factor per failure, up to `max_failures` of them."""

    factor: int = 2
    max_failures: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """A stable spread: a share of the gap to the next instant, or at most a fixed time."""

    share: float = 0.0
    span: timedelta | None = None

    def __str__(self) -> str:
        return f"{self.share:.0%}" if self.span is None else format_duration(self.span)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The life of a schedule. Outside of it, beats are `expired`."""

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveHours:
    """A daily window in a zone. `opens` after `closes` means over midnight; the closing minute is outside."""

    opens: time
    closes: time
    zone: ZoneInfo

    def __str__(self) -> str:
        return f"{self.opens:%H:%M}-{self.closes:%H:%M}"

    def contains(self, moment: datetime) -> bool:
        local = moment.astimezone(self.zone).time()
        if self.opens < self.closes:
            return self.opens <= local < self.closes
        return local >= self.opens or local < self.closes

    def next_opening(self, moment: datetime) -> datetime:
        """The first opening at or after a moment that lies outside."""
        day = moment.astimezone(self.zone).date()
        opening = self._opening_on(day)
        return opening if opening >= moment else self._opening_on(day + timedelta(days=1))

    def next_closing(self, moment: datetime) -> datetime:
        """The first closing after a moment that lies inside."""
        day = moment.astimezone(self.zone).date()
        closing = self._closing_on(day)
        return closing if closing > moment else self._closing_on(day + timedelta(days=1))

    def _closing_on(self, day: date) -> datetime:
        closing = datetime.combine(day, self.closes, self.zone).astimezone(UTC)
        if closing.astimezone(self.zone).time() == self.closes:
            return closing
        # In a DST gap, as with the opening: the clocks jump over it, so the first minute that exists is outside.
        while not self.contains(closing - _MINUTE):
            closing -= _MINUTE
        return closing

    def _opening_on(self, day: date) -> datetime:
        opening = datetime.combine(day, self.opens, self.zone).astimezone(UTC)
        if opening.astimezone(self.zone).time() == self.opens:
            return opening
        # The opening lies in a DST gap, and UTC has put it after it: go back to the first minute that exists.
        while self.contains(opening - _MINUTE):
            opening -= _MINUTE
        return opening


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """More attempts at the same beat, before the next: wait, wait x factor, …"""

    attempts: int = 1
    wait: timedelta = timedelta(seconds=30)
    factor: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a schedule, or those who share it, may use in one day of its zone. Checked before a start."""

    usd_per_day: float | None = None
    tokens_per_day: int | None = None
    runs_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies of one schedule, resolved: nothing below has to know a default."""

    zone: ZoneInfo
    timeout: timedelta
    catchup: Catchup
    overlap: Overlap = Overlap.SKIP
    catchup_max: int = 100
    grace: timedelta = timedelta(seconds=30)
    max_late: timedelta | None = None
    late_after: timedelta = timedelta(seconds=30)
    jitter: Jitter | None = None
    limits: Limits = field(default_factory=Limits)
    backoff: Backoff = field(default_factory=Backoff)
    retry: Retry = field(default_factory=Retry)
    pause_after_failures: int | None = None
    bounds: Bounds = field(default_factory=Bounds)
    active_hours: ActiveHours | None = None
    budget: Budget | None = None
    precheck: tuple[str, ...] = ()
    priority: int = 0
    tags: tuple[str, ...] = ()
    group: str | None = None
    runs_on: str | None = None
    dedup: str | None = None
    when: str | None = None
    max_queued: int | None = None
    first_run: FirstRun = FirstRun.NOW
    on_interrupt: OnInterrupt = OnInterrupt.SKIP
    adapt: tuple[Mapping[str, object], ...] = ()
