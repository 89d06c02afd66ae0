"""Budgets: what a day may still use. Counted before a start, corrected by the finish, by days of the schedule's zone.

A run is counted when it is claimed, with an estimate of its cost: the median of the last ones. So the day is over its
limit by no more than what is running, also after a crash. It is counted for its schedule, for its target and for the
fleet, each of them if it has a budget.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.budget import (
    FLEET_OWNER,
    BudgetDay,
    BudgetOwner,
    BudgetScope,
    Cost,
    Reservation,
    SpendAdjustment,
    SpendTotals,
)
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.store.base import FinishedRun, ScheduleSnapshot, Transaction

MAX_ESTIMATE_RUNS = 20
"""Runs that an estimate looks at."""

_UNREPORTED_STATUSES = frozenset({RunStatus.INTERRUPTED, RunStatus.CANCELLED, RunStatus.TIMED_OUT})
"""How a run ends that could not say what it used. It did use something, so the estimate stays."""


_NO_SPEND = SpendTotals()


@dataclass(slots=True)
class BudgetUsage:
    """One budget on one day, and what is used of it, as a turn sees it. Who shares the budget shares the purse."""

    account: BudgetDay
    budget: Budget
    spent: SpendTotals = _NO_SPEND

    def reserve(self, cost: Cost) -> None:
        spent = self.spent
        self.spent = SpendTotals(spent.runs + 1, spent.tokens + cost.tokens, spent.usd + cost.usd)


@dataclass(frozen=True, slots=True)
class ScheduleBudgets:
    """What one schedule may still use today: out of its own purse, its target's and the fleet's, all at once."""

    estimate: Cost
    budget_usages: tuple[BudgetUsage, ...]

    def reserve(self) -> None:
        """Set aside what one run is going to use."""
        for budget_usage in self.budget_usages:
            budget_usage.reserve(self.estimate)

    @property
    def is_exhausted(self) -> bool:
        return any(
            find_exhausted_limit(budget_usage.budget, budget_usage.spent, self.estimate) is not None
            for budget_usage in self.budget_usages
        )


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """One limit of a budget, and what is used of it."""

    name: str
    used: float
    most: float
    estimate: float = 0.0

    @property
    def is_reached(self) -> bool:
        """The first run of a day may go over it: an estimate above the limit would else keep it out for ever."""
        return self.used >= self.most or (self.used > 0 and self.used + self.estimate > self.most)


def list_limits(budget: Budget, spent: SpendTotals, estimate: Cost) -> tuple[BudgetLimit, ...]:
    """Those that are set, in the order of the reference."""
    found = (
        ("usd_per_day", spent.usd, budget.usd_per_day, estimate.usd),
        ("tokens_per_day", spent.tokens, budget.tokens_per_day, estimate.tokens),
        ("runs_per_day", spent.runs, budget.runs_per_day, 0),
    )
    return tuple(BudgetLimit(name, used, most, cost) for name, used, most, cost in found if most is not None)


def find_exhausted_limit(budget: Budget, spent: SpendTotals, estimate: Cost) -> BudgetLimit | None:
    """The first limit that one more run would not keep; None if it may start."""
    return next((limit for limit in list_limits(budget, spent, estimate) if limit.is_reached), None)


def budget_date(now: datetime, zone: ZoneInfo) -> str:
    return now.astimezone(zone).date().isoformat()


def next_reset_at(now: datetime, zone: ZoneInfo) -> datetime:
    """When the budget of the next day opens."""
    tomorrow = now.astimezone(zone).date() + timedelta(days=1)
    return datetime.combine(tomorrow, time(), zone).astimezone(UTC)


def estimate_cost(usages: Iterable[Mapping[str, object]]) -> Cost:
    """The median of what the last runs used; nothing if none of them said so."""
    costs = [Cost.from_usage(usage) for usage in usages]
    if not costs:
        return Cost()
    tokens, usd = sorted(cost.tokens for cost in costs), sorted(cost.usd for cost in costs)
    return Cost(tokens=tokens[len(costs) // 2], usd=usd[len(costs) // 2])


def applicable_budgets(
    schedule_id: int, target_id: int, own: Budget | None, shared: Mapping[BudgetOwner, Budget]
) -> dict[BudgetOwner, Budget]:
    """Every budget that holds for a schedule, its own first. `shared` are those of targets and of the fleet."""
    found = {
        BudgetOwner(BudgetScope.SCHEDULE, schedule_id): own,
        (target := BudgetOwner(BudgetScope.TARGET, target_id)): shared.get(target),
        FLEET_OWNER: shared.get(FLEET_OWNER),
    }
    return {holder: budget for holder, budget in found.items() if budget is not None}


def load_budgets(tx: Transaction, now: datetime, snapshots: Collection[ScheduleSnapshot]) -> dict[int, ScheduleBudgets]:
    """The wallets of those who have a budget, or share one. If nobody does, nothing more is asked."""
    has_shared = bool(snapshots) and tx.has_budgets()
    shared = tx.budgets({snapshot.target_id for snapshot in snapshots}) if has_shared else {}
    budget_usages: dict[BudgetDay, BudgetUsage] = {}
    held: dict[int, list[BudgetUsage]] = {}
    for each in snapshots:
        policies = each.plan.policies
        if policies.budget is None and not shared:
            continue
        for holder, budget in applicable_budgets(each.id, each.target_id, policies.budget, shared).items():
            account = BudgetDay(holder, budget_date(now, policies.zone))
            held.setdefault(each.id, []).append(budget_usages.setdefault(account, BudgetUsage(account, budget)))
    if not held:
        return {}
    for account, used in tx.budget_get_usage(budget_usages).items():
        budget_usages[account].spent = used
    usages = tx.last_usage(held, MAX_ESTIMATE_RUNS)
    return {
        schedule: ScheduleBudgets(estimate_cost(usages[schedule]), tuple(found)) for schedule, found in held.items()
    }


def reserve_budgets(
    tx: Transaction, budgets_by_schedule: Mapping[int, ScheduleBudgets], claims: Sequence[Claim]
) -> None:
    """Count what was just claimed as used."""
    if not budgets_by_schedule:
        return
    tx.reserve(
        [
            Reservation(each.run_id, budget_usage.account, budgets.estimate.tokens, budgets.estimate.usd)
            for each in claims
            if (budgets := budgets_by_schedule.get(each.schedule_id)) is not None
            for budget_usage in budgets.budget_usages
        ]
    )


def settle_reservations(tx: Transaction, ended: Iterable[FinishedRun]) -> None:
    """Put in what runs have really used, in place of their estimates. Most have none, and nothing more is asked."""
    outcomes = {run.run_id: run.outcome for run in ended}
    held = tx.reservations(outcomes) if outcomes else []
    if not held:
        return
    tx.add_spend([compute_adjustment(each, outcomes[each.run_id]) for each in held])
    tx.drop_reservations(list({each.run_id for each in held}))


def compute_adjustment(reserved: Reservation, outcome: Outcome) -> SpendAdjustment:
    account = reserved.account
    if outcome.status is RunStatus.SKIPPED:
        return SpendAdjustment(account, -1, -reserved.tokens, -reserved.usd)  # it never started
    if not outcome.usage and outcome.status in _UNREPORTED_STATUSES:
        return SpendAdjustment(account)
    cost = Cost.from_usage(outcome.usage)
    return SpendAdjustment(account, 0, cost.tokens - reserved.tokens, cost.usd - reserved.usd)
