"""What runs cost, and what whoever has a budget has used of it on one day."""

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
        """Out of what a run reported. It comes from outside: what is no number, or none that can be spent, is nothing.

        `tokens` is taken as it is; else everything that is called `…_tokens` is added up.
        """
        token_keys = ("tokens",) if "tokens" in usage else tuple(name for name in usage if name.endswith("_tokens"))
        usd_key = next((name for name in _USD_KEYS if name in usage), "")
        return cls(
            tokens=round(sum(_parse_amount(usage.get(name)) for name in token_keys)),
            usd=_parse_amount(usage.get(usd_key)),
        )


class BudgetScope(StrEnum):
    """Whose budget it is. Those of a target and of the fleet are shared by all schedules below them."""

    SCHEDULE = "schedule"
    TARGET = "target"
    FLEET = "fleet"


class BudgetOwner(NamedTuple):
    """Who has a budget. The fleet is one, and has no number."""

    scope: BudgetScope
    id: int


FLEET_OWNER = BudgetOwner(BudgetScope.FLEET, 0)


class BudgetDay(NamedTuple):
    """One day of a holder. Of a shared budget it is the day of the schedule that runs, by its own zone."""

    holder: BudgetOwner
    day: str


class SpendTotals(NamedTuple):
    """What a day has used so far: with the estimates of what is still running."""

    runs: int = 0
    tokens: int = 0
    usd: float = 0.0


class Reservation(NamedTuple):
    """What the claim has set aside for a run in one account, until its finish knows better."""

    run_id: int
    account: BudgetDay
    tokens: int
    usd: float


class SpendAdjustment(NamedTuple):
    """What is added to an account; negative to give back."""

    account: BudgetDay
    runs: int = 0
    tokens: int = 0
    usd: float = 0.0


def _parse_amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(min(value, 1e15)) if isfinite(value) and value > 0 else 0.0
