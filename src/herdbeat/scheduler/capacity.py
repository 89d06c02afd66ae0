"""How much may still start: per target, on this node, by budget, by account; and at which rate beats catch up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from herdbeat.domain.account_hold import AccountHold
from herdbeat.scheduler.budgets import ScheduleBudgets

if TYPE_CHECKING:
    from herdbeat.store.base import CatchupCursor


@dataclass(slots=True)
class CapacitySnapshot:
    """The free slots as one claim cycle sees them. A target that is unknown has none."""

    free_node_slots: int
    free_by_target: dict[int, int] = field(default_factory=dict)
    taken_by_target: dict[int, int] = field(default_factory=dict)
    budgets_by_schedule: Mapping[int, ScheduleBudgets] = field(default_factory=dict)
    holds_by_schedule: Mapping[int, AccountHold] = field(default_factory=dict)
    ended_holds: list[AccountHold] = field(default_factory=list)
    labels: frozenset[str] = frozenset()
    free_start_slots: int | None = None
    """How many paced starts may begin in this very cycle; None if starts are not paced here."""

    @property
    def is_node_full(self) -> bool:
        """A beat that waits for the node must stay due: no completion at its own target wakes it."""
        return self.free_node_slots <= 0

    def has_gate(self, schedule_id: int) -> bool:
        """True if a gate that the plan of the schedule does not know may be closed: a shared budget, or an account."""
        return schedule_id in self.budgets_by_schedule or schedule_id in self.holds_by_schedule

    def reserve(self, target_id: int) -> bool:
        """Take a slot for one run, if the target and the node have one."""
        if self.is_node_full or self.free_by_target.get(target_id, 0) <= 0:
            return False
        self.free_node_slots -= 1
        self.free_by_target[target_id] -= 1
        self.taken_by_target[target_id] = self.taken_by_target.get(target_id, 0) + 1
        return True

    def reserve_budget(self, schedule_id: int) -> None:
        """Count the estimated cost of one run, if the schedule has a budget or shares one."""
        budgets = self.budgets_by_schedule.get(schedule_id)
        if budgets is not None:
            budgets.reserve()

    def take_start_slot(self) -> bool:
        """Take the slot of one paced start, if there is one now."""
        if not self.free_start_slots:
            return False
        self.free_start_slots -= 1
        return True

    def release_excess(self, target_id: int, taken: int) -> None:
        """Give back the slots of a target that were taken beyond `taken`."""
        while self.taken_by_target.get(target_id, 0) > taken:
            self.release(target_id)

    def release(self, target_id: int) -> None:
        self.free_node_slots += 1
        self.free_by_target[target_id] += 1
        self.taken_by_target[target_id] -= 1


@dataclass(frozen=True, slots=True)
class CatchupPacer:
    """Missed beats and agents that are due at once do not start as a burst, but at most `catchup_rate` a second.

    Both count by themselves, each for all nodes together.
    """

    rate: float

    @property
    def spacing(self) -> timedelta:
        return timedelta(seconds=1 / self.rate)

    def start_times(self, number: int, first: datetime) -> list[datetime]:
        """Return the start times of so many beats, beginning at `first`."""
        return [first + position * self.spacing for position in range(number)]

    def next_free_at(self, now: datetime, cursor: "CatchupCursor") -> datetime:
        """Return the first slot that is not taken.

        A cursor beyond all waiting beats was left by a clock that has been set back since, and does not count.
        """
        last = now if cursor.last_start_at is None else max(now, cursor.last_start_at)
        return max(now, min(cursor.free_at or now, last + self.spacing))
