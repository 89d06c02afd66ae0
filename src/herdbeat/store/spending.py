"""Budgets: those that are shared, what a day has used, and what is set aside for runs that are still going."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from herdbeat.domain.codec import to_json
from herdbeat.domain.policies import Budget
from herdbeat.domain.spend import THE_FLEET, Account, Correction, Holder, Reservation, Scope, Spent
from herdbeat.store.plans import read_budgets
from herdbeat.store.requests import SqlRequests
from herdbeat.store.statements import dump


class SqlSpending(SqlRequests):
    def budgets(self, target_ids: Iterable[int]) -> dict[Holder, Budget]:
        return read_budgets(self._statements.ask("budgets", [THE_FLEET.id, *target_ids]))

    def set_budgets(self, budgets: Mapping[Holder, Budget | None]) -> None:
        kept = [(*holder, dump(to_json(budget))) for holder, budget in budgets.items() if budget is not None]
        self._statements.tell("set_budgets", kept)
        self._statements.tell("drop_budgets", [holder for holder, budget in budgets.items() if budget is None])

    def spent(self, accounts: Collection[Account]) -> dict[Account, Spent]:
        rows = [_flat(each) for each in accounts]
        self._statements.tell("open_spend", rows)
        return {_account(*row[:3]): Spent(*row[3:]) for row in self._statements.ask("spent", rows)}

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        return dict(self._statements.ask("last_usage", schedule_ids, limit=limit))

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        rows = [(each.run_id, *_flat(each.account), each.tokens, each.usd) for each in reservations]
        self._statements.tell("reserve", rows)
        self.add_spend([Correction(each.account, 1, each.tokens, each.usd) for each in reservations])

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]:
        return read_reservations(self._statements.ask("reservations", run_ids))

    def drop_reservations(self, run_ids: Sequence[int]) -> None:
        self._statements.tell("drop_reservations", run_ids)

    def add_spend(self, corrections: Sequence[Correction]) -> None:
        self._statements.tell("add_spend", [(*_flat(each.account), *each[1:]) for each in corrections])

    def drop_spend(self, before: str) -> int:
        return self._statements.do("drop_spend", before=before)()


def read_reservations(rows: Iterable[Any]) -> list[Reservation]:
    return [Reservation(run, _account(*account), tokens, usd) for run, *account, tokens, usd in rows]


def _flat(account: Account) -> tuple[Scope, int, str]:
    return (*account.holder, account.day)


def _account(scope: str, number: int, day: str) -> Account:
    return Account(Holder(Scope(scope), number), day)
