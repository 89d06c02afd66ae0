"""How much may still start: per target, on this node, of a day's budget. Taken in a turn, written with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.scheduler.budget import Wallet
from herdbeat.store.base import Pace, Room


@dataclass(slots=True)
class Rooms:
    """The free places as a turn sees them. A target that is unknown has none."""

    node: int
    free: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    wallets: Mapping[int, Wallet] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()

    @classmethod
    def of(cls, node: int, targets: Mapping[int, Room]) -> "Rooms":
        return cls(node, {room.target_id: room.max_concurrent - room.running for room in targets.values()})

    @property
    def node_is_full(self) -> bool:
        """What finds no place then must look again by itself: no finish of its own target will wake it."""
        return self.node <= 0

    def take(self, target_id: int) -> bool:
        """A place for one run, if the target has one and the node too."""
        if self.node_is_full or self.free.get(target_id, 0) <= 0:
            return False
        self.node -= 1
        self.free[target_id] -= 1
        self.taken[target_id] = self.taken.get(target_id, 0) + 1
        return True

    def spend(self, schedule_id: int) -> None:
        """Set aside what a run of it is going to cost, if it has a budget or shares one."""
        wallet = self.wallets.get(schedule_id)
        if wallet is not None:
            wallet.take()

    def give_back_to(self, target_id: int, taken: int) -> None:
        """Give back what was taken since there were so many."""
        while self.taken.get(target_id, 0) > taken:
            self.give_back(target_id)

    def give_back(self, target_id: int) -> None:
        self.node += 1
        self.free[target_id] += 1
        self.taken[target_id] -= 1


@dataclass(frozen=True, slots=True)
class Pacer:
    """Starts that were missed do not come as a burst: at most so many a second (`catchup_rate`), of all nodes."""

    rate: float

    @property
    def step(self) -> timedelta:
        return timedelta(seconds=1 / self.rate)

    def starts(self, number: int, first: datetime) -> list[datetime]:
        """When so many may start, the first of them then."""
        return [first + place * self.step for place in range(number)]

    def free_from(self, now: datetime, given: Pace) -> datetime:
        """The first moment that nobody has been given yet.

        A mark that lies beyond all who wait was left by a clock that has been put back since, and counts for nothing.
        """
        last = now if given.last_start_at is None else max(now, given.last_start_at)
        return max(now, min(given.free_at or now, last + self.step))
