"""How much may still start: per target, on this node, of a day's budget. Taken in a turn, written with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.scheduler.budgets import ScheduleBudgets
from herdbeat.store.base import CatchupCursor, TargetCapacity


@dataclass(slots=True)
class CapacitySnapshot:
    """The free places as a turn sees them. A target that is unknown has none."""

    free_node_slots: int
    free_by_target: dict[int, int] = field(default_factory=dict)
    taken_by_target: dict[int, int] = field(default_factory=dict)
    budgets_by_schedule: Mapping[int, ScheduleBudgets] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()

    @classmethod
    def from_targets(cls, free_node_slots: int, targets: Mapping[int, TargetCapacity]) -> "CapacitySnapshot":
        return cls(free_node_slots, {room.target_id: room.max_concurrent - room.running for room in targets.values()})

    @property
    def is_node_full(self) -> bool:
        """What finds no place then must look again by itself: no finish of its own target will wake it."""
        return self.free_node_slots <= 0

    def reserve(self, target_id: int) -> bool:
        """A place for one run, if the target has one and the node too."""
        if self.is_node_full or self.free_by_target.get(target_id, 0) <= 0:
            return False
        self.free_node_slots -= 1
        self.free_by_target[target_id] -= 1
        self.taken_by_target[target_id] = self.taken_by_target.get(target_id, 0) + 1
        return True

    def reserve_budget(self, schedule_id: int) -> None:
        """Set aside what a run of it is going to cost, if it has a budget or shares one."""
        budgets = self.budgets_by_schedule.get(schedule_id)
        if budgets is not None:
            budgets.reserve()

    def release_excess(self, target_id: int, taken: int) -> None:
        """Give back what was taken since there were so many."""
        while self.taken_by_target.get(target_id, 0) > taken:
            self.release(target_id)

    def release(self, target_id: int) -> None:
        self.free_node_slots += 1
        self.free_by_target[target_id] += 1
        self.taken_by_target[target_id] -= 1


@dataclass(frozen=True, slots=True)
class CatchupPacer:
    """Starts that were missed do not come as a burst: at most so many a second (`catchup_rate`), of all nodes."""

    rate: float

    @property
    def spacing(self) -> timedelta:
        return timedelta(seconds=1 / self.rate)

    def start_times(self, number: int, first: datetime) -> list[datetime]:
        """When so many may start, the first of them then."""
        return [first + place * self.spacing for place in range(number)]

    def next_free_at(self, now: datetime, cursor: CatchupCursor) -> datetime:
        """The first moment that nobody has been given yet.

        A mark that lies beyond all who wait was left by a clock that has been put back since, and counts for nothing.
        """
        last = now if cursor.last_start_at is None else max(now, cursor.last_start_at)
        return max(now, min(cursor.free_at or now, last + self.spacing))
