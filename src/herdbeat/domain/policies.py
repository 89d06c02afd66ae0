"""The policies of a schedule: everything a user may choose for it beside target, trigger and prompt."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from herdbeat.durations import format_duration

_MINUTE = timedelta(minutes=1)


class Catchup(StrEnum):
    """Which beats run late after a gap: none, one for all of them, or each."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class Overlap(StrEnum):
    """What happens to a beat that is due while an earlier run of its schedule is active."""

    SKIP = "skip"
    QUEUE = "queue"
    QUEUE_ALL = "queue_all"
    CANCEL = "cancel"
    ALLOW = "allow"


class FirstRun(StrEnum):
    """When a new interval schedule runs for the first time."""

    NOW = "now"
    AFTER_INTERVAL = "after_interval"


class OnInterrupt(StrEnum):
    """What happens to the beat of a run whose node died."""

    SKIP = "skip"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hard bounds on the distance between two runs. They override hints, backoff and baseline."""

    at_least: timedelta | None = None
    at_most: timedelta | None = None

    def clamp(self, interval: timedelta) -> timedelta:
        """Return the interval as the bounds change it. Where they cross, the upper one wins."""
        if self.at_least is not None:
            interval = max(interval, self.at_least)
        return interval if self.at_most is None else min(interval, self.at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How an interval grows after failures: times `factor` for each consecutive one, up to `max_failures`."""

    factor: int = 2
    max_failures: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """A deterministic spread of start times: up to a share of the gap to the next instant, or up to a fixed time.

    With both it is a share of at most so long: the spread that agents have by default.
    """

    share: float = 0.0
    span: timedelta | None = None

    def __str__(self) -> str:
        if self.is_automatic:
            return "auto"
        return f"{self.share:.0%}" if self.span is None else format_duration(self.span)

    @property
    def is_automatic(self) -> bool:
        """True for a spread that nobody asked for. It changes no decision but the second of the start."""
        return self.share > 0 and self.span is not None


AUTOMATIC_SPREAD = Jitter(share=0.01, span=timedelta(seconds=10))
"""`jitter: auto`. An older program reads the two fields as up to 10 seconds: both can work on one ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lifetime of a schedule. Beats outside of it are skipped as `expired`."""

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveHours:
    """A daily window in a zone. If `opens` is after `closes`, it spans midnight; the closing minute is outside."""

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
        """Return the first opening at or after `moment`, which is outside the window."""
        today, tomorrow = self._edges(moment, is_opening=True)
        return today if today >= moment else tomorrow

    def next_closing(self, moment: datetime) -> datetime:
        """Return the first closing after `moment`, which is inside the window."""
        today, tomorrow = self._edges(moment, is_opening=False)
        return today if today > moment else tomorrow

    def _edges(self, moment: datetime, *, is_opening: bool) -> Iterator[datetime]:
        """Yield when the window opens, or closes, on the local day of `moment` and on the day after."""
        edge, day = self.opens if is_opening else self.closes, moment.astimezone(self.zone).date()
        for date in (day, day + timedelta(days=1)):
            instant = datetime.combine(date, edge, self.zone).astimezone(UTC)
            if instant.astimezone(self.zone).time() != edge:
                # It is in a DST gap, and the conversion to UTC moved it past the gap: go back to the end of the gap,
                # whose first minute is inside the window already (or outside, at a closing).
                while self.contains(instant - _MINUTE) is is_opening:
                    instant -= _MINUTE
            yield instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Further attempts at the same beat. They wait `wait`, then `wait` times `factor`, and so on."""

    attempts: int = 1
    wait: timedelta = timedelta(seconds=30)
    factor: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one schedule, or all that share the budget, may use per day of its zone. Checked before a start.

    `usd_per_run` is a limit that the CLI of an agent keeps itself, while it runs.
    """

    usd_per_day: float | None = None
    tokens_per_day: int | None = None
    runs_per_day: int | None = None
    usd_per_run: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies of one schedule. Loading the configuration resolves every default, so no other code has one.

    `variables` are those that `precheck` refers to: see `references`.
    """

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
    wakes_per_day: int = 48
    variables: tuple[str, ...] = ()
