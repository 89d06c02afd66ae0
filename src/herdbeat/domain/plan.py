"""Trigger and policies: what deciding needs of a schedule, shared by all schedules that say the same."""

from dataclasses import dataclass, field

from herdbeat.domain.policies import Policies
from herdbeat.domain.timing import Timing
from herdbeat.domain.trigger import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    trigger: Trigger
    policies: Policies
    timing: Timing = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "timing", Timing.of(self.trigger, self.policies))
