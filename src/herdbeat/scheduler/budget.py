"""Budgets: what a day may still use. Counted before a start, corrected by the finish, by days of the schedule's zone.

A run is counted when it is claimed, with an estimate of its cost: the median of the last ones. So the day is over its
limit by no more than what is running, also after a crash.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.claim import Claim
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.spend import Correction, Cost, Reservation, Spent
from herdbeat.store.base import FinishedRun, Standing, Transaction

LAST = 20
"""Runs that an estimate looks at."""

_UNHEARD = frozenset({RunStatus.INTERRUPTED, RunStatus.CANCELLED, RunStatus.TIMED_OUT})
"""How a run ends that could not say what it used. It did use something, so the estimate stays."""


@dataclass(slots=True)
class Purse:
    """What one schedule may still use today, as a turn sees it."""

    budget: Budget
    day: str
    spent: Spent
    estimate: Cost

    def take(self) -> None:
        """Set aside what one run is going to use."""
        spent, cost = self.spent, self.estimate
        self.spent = Spent(spent.runs + 1, spent.tokens + cost.tokens, spent.usd + cost.usd)

    @property
    def is_used_up(self) -> bool:
        return used_up(self.budget, self.spent, self.estimate) is not None


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a budget, and what is used of it."""

    name: str
    used: float
    most: float
    estimate: float = 0.0

    @property
    def is_reached(self) -> bool:
        """The first run of a day may go over it: an estimate above the limit would else keep it out for ever."""
        return self.used >= self.most or (self.used > 0 and self.used + self.estimate > self.most)


def limits(budget: Budget, spent: Spent, estimate: Cost) -> tuple[Limit, ...]:
    """Those that are set, in the order of the reference."""
    found = (
        ("usd_per_day", spent.usd, budget.usd_per_day, estimate.usd),
        ("tokens_per_day", spent.tokens, budget.tokens_per_day, estimate.tokens),
        ("runs_per_day", spent.runs, budget.runs_per_day, 0),
    )
    return tuple(Limit(name, used, most, cost) for name, used, most, cost in found if most is not None)


def used_up(budget: Budget, spent: Spent, estimate: Cost) -> Limit | None:
    """The first limit that one more run would not keep; None if it may start."""
    return next((limit for limit in limits(budget, spent, estimate) if limit.is_reached), None)


def day_of(now: datetime, zone: ZoneInfo) -> str:
    return now.astimezone(zone).date().isoformat()


def next_day_at(now: datetime, zone: ZoneInfo) -> datetime:
    """When the budget of the next day opens."""
    tomorrow = now.astimezone(zone).date() + timedelta(days=1)
    return datetime.combine(tomorrow, time(), zone).astimezone(UTC)


def estimate(usages: Iterable[Mapping[str, object]]) -> Cost:
    """The median of what the last runs used; nothing if none of them said so."""
    costs = [Cost.of(usage) for usage in usages]
    if not costs:
        return Cost()
    tokens, usd = sorted(cost.tokens for cost in costs), sorted(cost.usd for cost in costs)
    return Cost(tokens=tokens[len(costs) // 2], usd=usd[len(costs) // 2])


def open_purses(tx: Transaction, now: datetime, standings: Iterable[Standing]) -> dict[int, Purse]:
    """The purses of those that have a budget. If none has, nothing is asked."""
    budgets = {
        each.id: (policies.budget, day_of(now, policies.zone))
        for each in standings
        if (policies := each.plan.policies).budget is not None
    }
    if not budgets:
        return {}
    spent = tx.spent([(schedule, day) for schedule, (_, day) in budgets.items()])
    usages = tx.last_usage(budgets, LAST)
    return {
        schedule: Purse(budget, day, spent.get(schedule, Spent()), estimate(usages[schedule]))
        for schedule, (budget, day) in budgets.items()
    }


def reserve(tx: Transaction, purses: Mapping[int, Purse], claims: Sequence[Claim]) -> None:
    """Count what was just claimed as used."""
    if not purses:
        return
    tx.reserve(
        [
            Reservation(each.run_id, each.schedule_id, purse.day, purse.estimate.tokens, purse.estimate.usd)
            for each in claims
            if (purse := purses.get(each.schedule_id)) is not None
        ]
    )


def correct(tx: Transaction, ended: Iterable[FinishedRun]) -> None:
    """Put in what runs have really used, in place of their estimates."""
    outcomes = {run.run_id: run.outcome for run in ended}
    if not outcomes:
        return
    held = tx.reservations(outcomes)
    tx.add_spend([correction(each, outcomes[each.run_id]) for each in held])
    tx.drop_reservations([each.run_id for each in held])


def correction(reserved: Reservation, outcome: Outcome) -> Correction:
    schedule, day = reserved.schedule_id, reserved.day
    if outcome.status is RunStatus.SKIPPED:
        return Correction(schedule, day, -1, -reserved.tokens, -reserved.usd)  # it never started
    if not outcome.usage and outcome.status in _UNHEARD:
        return Correction(schedule, day)
    cost = Cost.of(outcome.usage)
    return Correction(schedule, day, 0, cost.tokens - reserved.tokens, cost.usd - reserved.usd)
