"""Budgets: what a run costs, and what each owner of a budget has used on one day."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import NamedTuple

_USD_KEYS = ("usd", "cost_usd", "total_cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens and US dollars of one run."""

    tokens: int = 0
    usd: float = 0.0

    @classmethod
    def from_usage(cls, usage: Mapping[str, object]) -> "Cost":
        """Return the reported cost of a run. It is untrusted: anything but a positive, finite number counts as zero.

        `tokens` is used if it is present, else the sum of all values named `…_tokens`.
        """
        token_keys = ("tokens",) if "tokens" in usage else tuple(name for name in usage if name.endswith("_tokens"))
        usd_key = next((name for name in _USD_KEYS if name in usage), "")
        return cls(
            tokens=round(sum(_parse_amount(usage.get(name)) for name in token_keys)),
            usd=_parse_amount(usage.get(usd_key)),
        )


class BudgetScope(StrEnum):
    """What a budget belongs to. The budgets of a target and of the fleet are shared by all of their schedules."""

    SCHEDULE = "schedule"
    TARGET = "target"
    FLEET = "fleet"


class BudgetOwner(NamedTuple):
    """The schedule, target or fleet that has a budget. The fleet has the id 0."""

    scope: BudgetScope
    id: int


FLEET_OWNER = BudgetOwner(BudgetScope.FLEET, 0)


class BudgetDay(NamedTuple):
    """One day of a budget, in the zone of the schedule that runs, also if the budget is shared."""

    holder: BudgetOwner
    day: str


class SpendTotals(NamedTuple):
    """What was used on a day so far, including the reservations of active runs."""

    runs: int = 0
    tokens: int = 0
    usd: float = 0.0


class Reservation(NamedTuple):
    """What a claim reserves for a run on one budget day, until the run is completed and its real cost is known."""

    run_id: int
    account: BudgetDay
    tokens: int
    usd: float


class SpendAdjustment(NamedTuple):
    """An amount to add to one budget day; negative to give back a reservation."""

    account: BudgetDay
    runs: int = 0
    tokens: int = 0
    usd: float = 0.0


def _parse_amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(min(value, 1e15)) if isfinite(value) and value > 0 else 0.0
