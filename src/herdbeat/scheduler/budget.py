"""Budgets: what a day may still use. Counted before a start, corrected by the finish, by days of the schedule's zone.

A run is counted when it is claimed, with an estimate of its cost: the median of the last ones. So the day is over its
limit by no more than what is running, also after a crash. It is counted for its schedule, for its target and for the
fleet, each of them if it has a budget.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.claim import Claim
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.spend import THE_FLEET, Account, Correction, Cost, Holder, Reservation, Scope, Spent
from herdbeat.store.base import FinishedRun, Standing, Transaction

LAST = 20
"""Runs that an estimate looks at."""

_UNHEARD = frozenset({RunStatus.INTERRUPTED, RunStatus.CANCELLED, RunStatus.TIMED_OUT})
"""How a run ends that could not say what it used. It did use something, so the estimate stays."""


_NOTHING = Spent()


@dataclass(slots=True)
class Purse:
    """One budget on one day, and what is used of it, as a turn sees it. Who shares the budget shares the purse."""

    account: Account
    budget: Budget
    spent: Spent = _NOTHING

    def take(self, cost: Cost) -> None:
        spent = self.spent
        self.spent = Spent(spent.runs + 1, spent.tokens + cost.tokens, spent.usd + cost.usd)


@dataclass(frozen=True, slots=True)
class Wallet:
    """What one schedule may still use today: out of its own purse, its target's and the fleet's, all at once."""

    estimate: Cost
    purses: tuple[Purse, ...]

    def take(self) -> None:
        """Set aside what one run is going to use."""
        for purse in self.purses:
            purse.take(self.estimate)

    @property
    def is_used_up(self) -> bool:
        return any(used_up(purse.budget, purse.spent, self.estimate) is not None for purse in self.purses)


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


def budgets_of(
    schedule_id: int, target_id: int, own: Budget | None, shared: Mapping[Holder, Budget]
) -> dict[Holder, Budget]:
    """Every budget that holds for a schedule, its own first. `shared` are those of targets and of the fleet."""
    found = {
        Holder(Scope.SCHEDULE, schedule_id): own,
        (target := Holder(Scope.TARGET, target_id)): shared.get(target),
        THE_FLEET: shared.get(THE_FLEET),
    }
    return {holder: budget for holder, budget in found.items() if budget is not None}


def open_wallets(tx: Transaction, now: datetime, standings: Collection[Standing]) -> dict[int, Wallet]:
    """The wallets of those who have a budget, or share one. If nobody does, nothing more is asked."""
    shared = tx.budgets({each.target_id for each in standings}) if standings else {}
    purses: dict[Account, Purse] = {}
    held: dict[int, list[Purse]] = {}
    for each in standings:
        policies = each.plan.policies
        if policies.budget is None and not shared:
            continue
        for holder, budget in budgets_of(each.id, each.target_id, policies.budget, shared).items():
            account = Account(holder, day_of(now, policies.zone))
            held.setdefault(each.id, []).append(purses.setdefault(account, Purse(account, budget)))
    if not held:
        return {}
    for account, used in tx.spent(purses).items():
        purses[account].spent = used
    usages = tx.last_usage(held, LAST)
    return {schedule: Wallet(estimate(usages[schedule]), tuple(found)) for schedule, found in held.items()}


def reserve(tx: Transaction, wallets: Mapping[int, Wallet], claims: Sequence[Claim]) -> None:
    """Count what was just claimed as used."""
    if not wallets:
        return
    tx.reserve(
        [
            Reservation(each.run_id, purse.account, wallet.estimate.tokens, wallet.estimate.usd)
            for each in claims
            if (wallet := wallets.get(each.schedule_id)) is not None
            for purse in wallet.purses
        ]
    )


def correct(tx: Transaction, ended: Iterable[FinishedRun]) -> None:
    """Put in what runs have really used, in place of their estimates. Most have none, and nothing more is asked."""
    outcomes = {run.run_id: run.outcome for run in ended}
    held = tx.reservations(outcomes) if outcomes else []
    if not held:
        return
    tx.add_spend([correction(each, outcomes[each.run_id]) for each in held])
    tx.drop_reservations(list({each.run_id for each in held}))


def correction(reserved: Reservation, outcome: Outcome) -> Correction:
    account = reserved.account
    if outcome.status is RunStatus.SKIPPED:
        return Correction(account, -1, -reserved.tokens, -reserved.usd)  # it never started
    if not outcome.usage and outcome.status in _UNHEARD:
        return Correction(account)
    cost = Cost.of(outcome.usage)
    return Correction(account, 0, cost.tokens - reserved.tokens, cost.usd - reserved.usd)
