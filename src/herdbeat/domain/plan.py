"""Trigger and policies: what deciding needs of a schedule, shared by all schedules that say the same."""

from dataclasses import dataclass, field

from herdbeat.domain.policies import Policies
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    trigger: Trigger
    policies: Policies
    timing: TimingPolicy = field(init=False, repr=False, compare=False)
    is_gated: bool = field(init=False, repr=False, compare=False)
    """Whether a policy may turn its beats away. Asked at every start, so that those without one pay nothing."""

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
