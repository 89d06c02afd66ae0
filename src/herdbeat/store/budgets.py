"""What a store promises about budgets: those that are shared, and what is used of all of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from herdbeat.domain.policies import Budget
from herdbeat.domain.spend import BudgetDay, BudgetOwner, Reservation, SpendAdjustment, SpendTotals


class BudgetTransaction(Protocol):
    """What those with a budget have used, by days: schedules, targets, the fleet."""

    def budgets(self, target_ids: Iterable[int]) -> dict[BudgetOwner, Budget]:
        """Those that are shared: of these targets, and of the fleet. A schedule's own is in its plan."""
        ...

    def set_budgets(self, budgets: Mapping[BudgetOwner, Budget | None]) -> None:
        """Write shared budgets down; None takes one away."""
        ...

    def budget_get_usage(self, accounts: Collection[BudgetDay]) -> dict[BudgetDay, SpendTotals]:
        """What is used of each. Nobody else counts anything there until the end of this transaction."""
        ...

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        """What the newest so many runs of each said they used; those that said nothing are left out."""
        ...

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        """Count these runs and their estimates as used, until their finish knows better."""
        ...

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]: ...

    def drop_reservations(self, run_ids: Sequence[int]) -> None: ...

    def add_spend(self, corrections: Sequence[SpendAdjustment]) -> None: ...

    def drop_spend(self, before: str) -> int:
        """Forget the days before that one; how many there were."""
        ...
