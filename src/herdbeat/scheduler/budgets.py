"""Budgets: what a schedule, a target or the fleet may use in a day, by days of the schedule's zone.

A run is counted when it is claimed, with an estimate of its cost, the median of the last runs; its completion corrects
that. So a day exceeds its limit by no more than the active runs, also after a crash. A run counts for its schedule, for
its target and for the fleet, each of them if it has a budget.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING
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
from herdbeat.domain.run_status import RunStatus

if TYPE_CHECKING:
    from herdbeat.domain.run import Claim, Outcome
    from herdbeat.store.base import ScheduleSnapshot, Transaction

MAX_ESTIMATE_RUNS = 20
"""How many of the newest runs an estimate uses."""

_UNREPORTED_STATUSES = frozenset({RunStatus.INTERRUPTED, RunStatus.CANCELLED, RunStatus.TIMED_OUT})
"""A run that ends like this could not report what it used. It did use something, so the estimate stays."""


_NO_SPEND = SpendTotals()


@dataclass(slots=True)
class BudgetUsage:
    """One budget on one day, and what is used of it in this cycle. Schedules that share a budget share this value."""

    account: BudgetDay
    budget: Budget
    spent: SpendTotals = _NO_SPEND

    def reserve(self, cost: Cost) -> None:
        spent = self.spent
        self.spent = SpendTotals(spent.runs + 1, spent.tokens + cost.tokens, spent.usd + cost.usd)


@dataclass(frozen=True, slots=True)
class ScheduleBudgets:
    """All budgets that apply to one schedule today: its own, its target's and the fleet's."""

    estimate: Cost
    budget_usages: tuple[BudgetUsage, ...]

    def reserve(self) -> None:
        """Count one more run with its estimated cost."""
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
    maximum: float
    estimate: float = 0.0

    @property
    def is_reached(self) -> bool:
        """The first run of a day may exceed it: otherwise an estimate above the limit would keep it out for ever."""
        return self.used >= self.maximum or (self.used > 0 and self.used + self.estimate > self.maximum)


def list_limits(budget: Budget, spent: SpendTotals, estimate: Cost) -> tuple[BudgetLimit, ...]:
    """Return the limits that are set, in the order of the reference."""
    limits = (
        ("usd_per_day", spent.usd, budget.usd_per_day, estimate.usd),
        ("tokens_per_day", spent.tokens, budget.tokens_per_day, estimate.tokens),
        ("runs_per_day", spent.runs, budget.runs_per_day, 0),
    )
    return tuple(BudgetLimit(name, used, limit, cost) for name, used, limit, cost in limits if limit is not None)


def find_exhausted_limit(budget: Budget, spent: SpendTotals, estimate: Cost) -> BudgetLimit | None:
    """Return the first limit that one more run would exceed; None if it may start."""
    return next((limit for limit in list_limits(budget, spent, estimate) if limit.is_reached), None)


def budget_date(now: datetime, zone: ZoneInfo) -> str:
    return now.astimezone(zone).date().isoformat()


def next_reset_at(now: datetime, zone: ZoneInfo) -> datetime:
    """Return when the budget of the next day begins."""
    tomorrow = now.astimezone(zone).date() + timedelta(days=1)
    return datetime.combine(tomorrow, time(), zone).astimezone(UTC)


def estimate_cost(usages: Iterable[Mapping[str, object]]) -> Cost:
    """Return the median of what the last runs used; nothing if none of them reported it."""
    costs = [Cost.from_usage(usage) for usage in usages]
    if not costs:
        return Cost()
    tokens, usd = sorted(cost.tokens for cost in costs), sorted(cost.usd for cost in costs)
    return Cost(tokens=tokens[len(costs) // 2], usd=usd[len(costs) // 2])


def applicable_budgets(
    schedule_id: int, target_id: int, own: Budget | None, shared: Mapping[BudgetOwner, Budget]
) -> dict[BudgetOwner, Budget]:
    """Return every budget that applies to a schedule, its own first. `shared` are those of targets and of the fleet."""
    budgets = {
        BudgetOwner(BudgetScope.SCHEDULE, schedule_id): own,
        (target := BudgetOwner(BudgetScope.TARGET, target_id)): shared.get(target),
        FLEET_OWNER: shared.get(FLEET_OWNER),
    }
    return {owner: budget for owner, budget in budgets.items() if budget is not None}


def load_budgets(
    tx: "Transaction", now: datetime, snapshots: "Collection[ScheduleSnapshot]", *, has_shared: bool
) -> dict[int, ScheduleBudgets]:
    """Return the budgets of the schedules that have one, or share one."""
    shared = tx.budgets({snapshot.target_id for snapshot in snapshots}) if has_shared else {}
    usages: dict[BudgetDay, BudgetUsage] = {}
    usages_by_schedule: dict[int, list[BudgetUsage]] = {}
    for snapshot in snapshots:
        policies = snapshot.plan.policies
        if policies.budget is None and not shared:
            continue
        day = budget_date(now, policies.zone)
        for owner, budget in applicable_budgets(snapshot.id, snapshot.target_id, policies.budget, shared).items():
            usage = usages.setdefault(BudgetDay(owner, day), BudgetUsage(BudgetDay(owner, day), budget))
            usages_by_schedule.setdefault(snapshot.id, []).append(usage)
    if not usages_by_schedule:
        return {}
    for account, spent in tx.budget_get_usage(usages).items():
        usages[account].spent = spent
    reported = tx.last_usage(usages_by_schedule, MAX_ESTIMATE_RUNS)
    return {
        schedule_id: ScheduleBudgets(estimate_cost(reported[schedule_id]), tuple(schedule_usages))
        for schedule_id, schedule_usages in usages_by_schedule.items()
    }


def reserve_budgets(
    tx: "Transaction", budgets_by_schedule: Mapping[int, ScheduleBudgets], claims: "Sequence[Claim]"
) -> None:
    """Count these claims as used, by their estimates."""
    tx.reserve(
        [
            Reservation(claim.run_id, usage.account, budgets.estimate.tokens, budgets.estimate.usd)
            for claim in claims
            if (budgets := budgets_by_schedule.get(claim.schedule_id)) is not None
            for usage in budgets.budget_usages
        ]
    )


def settle_reservations(tx: "Transaction", outcomes: "Mapping[int, Outcome]") -> None:
    """Replace the estimates of these runs by what they really used."""
    tx.add_spend([compute_adjustment(each, outcomes[each.run_id]) for each in tx.reservations(outcomes)])
    tx.drop_reservations(list(outcomes))


def compute_adjustment(reserved: Reservation, outcome: "Outcome") -> SpendAdjustment:
    """Return by how much the spend of a day differs from what was reserved for a run, now that it has ended."""
    account = reserved.account
    if outcome.status is RunStatus.SKIPPED:
        return SpendAdjustment(account, -1, -reserved.tokens, -reserved.usd)  # it never started
    if not outcome.usage and outcome.status in _UNREPORTED_STATUSES:
        return SpendAdjustment(account)
    if outcome.agent is not None and outcome.agent.limit_reached and not outcome.usage:
        return SpendAdjustment(account, -1, -reserved.tokens, -reserved.usd)  # refused before it did anything
    cost = Cost.from_usage(outcome.usage)
    # What an agent's run cost may be unknown, and that is not nothing: then the estimate stays.
    is_unpriced = outcome.agent is not None and "usd" not in outcome.usage
    usd = 0.0 if is_unpriced else cost.usd - reserved.usd
    return SpendAdjustment(account, 0, cost.tokens - reserved.tokens, usd)
