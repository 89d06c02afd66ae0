"""The part of a schedule that decides when: all the governor needs, and nothing else."""

from dataclasses import dataclass, field

from herdbeat.domain.policies import ActiveHours, Backoff, Bounds, FirstRun, Jitter, Limits
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.trigger import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Built once per revision of a schedule and shared by all its decisions."""

    schedule: str
    trigger: Trigger
    first_run: FirstRun = FirstRun.NOW
    backoff: Backoff = field(default_factory=Backoff)
    jitter: Jitter | None = None
    limits: Limits = field(default_factory=Limits)
    bounds: Bounds = field(default_factory=Bounds)
    active_hours: ActiveHours | None = None

    @classmethod
    def of(cls, schedule: Schedule) -> "Timing":
        policies = schedule.policies
        return cls(
            schedule=schedule.id,
            trigger=schedule.trigger,
            first_run=policies.first_run,
            backoff=policies.backoff,
            jitter=policies.jitter,
            limits=policies.limits,
            bounds=policies.bounds,
            active_hours=policies.active_hours,
        )
