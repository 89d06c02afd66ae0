"""Budgets: those that are shared, what a day has used, and what is set aside for runs that are still going."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from herdbeat.domain.codec import to_json
from herdbeat.domain.policies import Budget
from herdbeat.domain.spend import (
    FLEET_OWNER,
    BudgetDay,
    BudgetOwner,
    BudgetScope,
    Reservation,
    SpendAdjustment,
    SpendTotals,
)
from herdbeat.store.plans import read_budgets
from herdbeat.store.requests import SqlRunRequestTransaction
from herdbeat.store.statements import dump_json


class SqlBudgetTransaction(SqlRunRequestTransaction):
    def budgets(self, target_ids: Iterable[int]) -> dict[BudgetOwner, Budget]:
        return read_budgets(self._connection.query("budgets", [FLEET_OWNER.id, *target_ids]))

    def set_budgets(self, budgets: Mapping[BudgetOwner, Budget | None]) -> None:
        kept = [(*holder, dump_json(to_json(budget))) for holder, budget in budgets.items() if budget is not None]
        self._connection.execute_many("set_budgets", kept)
        self._connection.execute_many("drop_budgets", [holder for holder, budget in budgets.items() if budget is None])

    def budget_get_usage(self, accounts: Collection[BudgetDay]) -> dict[BudgetDay, SpendTotals]:
        rows = [_budget_day_columns(each) for each in accounts]
        self._connection.execute_many("open_spend", rows)
        return {_read_budget_day(*row[:3]): SpendTotals(*row[3:]) for row in self._connection.query("spent", rows)}

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        return dict(self._connection.query("last_usage", schedule_ids, limit=limit))

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        rows = [(each.run_id, *_budget_day_columns(each.account), each.tokens, each.usd) for each in reservations]
        self._connection.execute_many("reserve", rows)
        self.add_spend([SpendAdjustment(each.account, 1, each.tokens, each.usd) for each in reservations])

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]:
        return read_reservations(self._connection.query("reservations", run_ids))

    def drop_reservations(self, run_ids: Sequence[int]) -> None:
        self._connection.execute_many("drop_reservations", run_ids)

    def add_spend(self, corrections: Sequence[SpendAdjustment]) -> None:
        self._connection.execute_many(
            "add_spend", [(*_budget_day_columns(each.account), *each[1:]) for each in corrections]
        )

    def drop_spend(self, before: str) -> int:
        return self._connection.execute("drop_spend", before=before)()


def read_reservations(rows: Iterable[Any]) -> list[Reservation]:
    return [Reservation(run, _read_budget_day(*account), tokens, usd) for run, *account, tokens, usd in rows]


def _budget_day_columns(account: BudgetDay) -> tuple[BudgetScope, int, str]:
    return (*account.holder, account.day)


def _read_budget_day(scope: str, number: int, day: str) -> BudgetDay:
    return BudgetDay(BudgetOwner(BudgetScope(scope), number), day)
