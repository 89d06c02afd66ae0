"""The part of a schedule that decides when: all the governor needs, and nothing else."""

from dataclasses import dataclass, field

from herdbeat.domain.policies import ActiveHours, Backoff, Bounds, FirstRun, Jitter, Limits, Policies
from herdbeat.domain.trigger import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPolicy:
    """Built once and shared: ten thousand schedules that say "every 5m" have one of these."""

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
