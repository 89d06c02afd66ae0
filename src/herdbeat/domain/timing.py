"""The parts of a schedule that decide when it runs, shared by all schedules with equal settings."""

from dataclasses import dataclass, field

from herdbeat.domain.policies import ActiveHours, Backoff, Bounds, FirstRun, Jitter, Limits, Policies
from herdbeat.domain.trigger import Trigger


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
        return cls(
            trigger=trigger,
            first_run=policies.first_run,
            backoff=policies.backoff,
            jitter=policies.jitter,
            limits=policies.limits,
            bounds=policies.bounds,
            active_hours=policies.active_hours,
        )


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "timing", TimingPolicy.from_policies(self.trigger, self.policies))
        object.__setattr__(self, "is_gated", _has_gates(self.policies))


def _has_gates(policies: Policies) -> bool:
    bounds = policies.bounds
    return (
        bounds.ends_at is not None
        or bounds.max_runs is not None
        or policies.active_hours is not None
        or policies.budget is not None
        or policies.runs_on is not None
    )
