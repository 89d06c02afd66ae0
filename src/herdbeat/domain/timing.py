"""The parts of a schedule that decide when it runs, shared by all schedules with equal settings."""

from dataclasses import dataclass, field, fields

from herdbeat.domain.policies import ActiveHours, Backoff, Bounds, FirstRun, Jitter, Limits, Policies
from herdbeat.domain.trigger import IntervalAnchor, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPolicy:
    """All that the governor needs of a schedule. Ten thousand schedules that say "every 5m" share one value."""

    trigger: Trigger
    first_run: FirstRun = FirstRun.NOW
    backoff: Backoff = field(default_factory=Backoff)
    jitter: Jitter | None = None
    limits: Limits = field(default_factory=Limits)
    bounds: Bounds = field(default_factory=Bounds)
    active_hours: ActiveHours | None = None

    @classmethod
    def from_policies(cls, trigger: Trigger, policies: Policies) -> "TimingPolicy":
        names = (field.name for field in fields(cls) if field.name != "trigger")
        return cls(trigger=trigger, **{name: getattr(policies, name) for name in names})


Timing = TimingPolicy
"""The documented name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """Trigger and policies: what the scheduler needs of a schedule to evaluate it."""

    trigger: Trigger
    policies: Policies
    timing: TimingPolicy = field(init=False, repr=False, compare=False)
    is_gated: bool = field(init=False, repr=False, compare=False)
    """True if a policy may reject its beats. Computed once, because the claim reads it for every beat."""

    depends_on_schedule: bool = field(init=False, repr=False, compare=False)
    """True if two schedules in the same state may get different times: by their jitter, or their number of runs."""

    is_plain: bool = field(init=False, repr=False, compare=False)
    """True if a due beat of it that is on time and alone starts: an interval without gate, jitter and `max_late`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "timing", TimingPolicy.from_policies(self.trigger, self.policies))
        policies, bounds = self.policies, self.policies.bounds
        gates = (bounds.ends_at, bounds.max_runs, policies.active_hours, policies.budget, policies.runs_on)
        object.__setattr__(self, "is_gated", any(gate is not None for gate in gates))
        object.__setattr__(self, "depends_on_schedule", policies.jitter is not None or bounds.max_runs is not None)
        is_punctual = policies.jitter is None and policies.max_late is None
        is_plain = is_punctual and not self.is_gated and self.trigger.anchor is IntervalAnchor.END
        object.__setattr__(self, "is_plain", is_plain)
