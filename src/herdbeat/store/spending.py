"""Budgets: what a day has used, and what is set aside for runs that are still going."""

from collections.abc import Iterable, Mapping, Sequence

from herdbeat.domain.spend import Correction, Reservation, Spent
from herdbeat.store.requests import SqlRequests


class SqlSpending(SqlRequests):
    def spent(self, days: Sequence[tuple[int, str]]) -> dict[int, Spent]:
        return {schedule: Spent(*used) for schedule, *used in self._statements.ask("spent", days)}

    def last_usage(self, schedule_ids: Iterable[int], limit: int) -> dict[int, list[Mapping[str, object]]]:
        return dict(self._statements.ask("last_usage", schedule_ids, limit=limit))

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        self._statements.tell("reserve", reservations)
        self.add_spend([Correction(each.schedule_id, each.day, 1, each.tokens, each.usd) for each in reservations])

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]:
        return [Reservation(*row) for row in self._statements.ask("reservations", run_ids)]

    def drop_reservations(self, run_ids: Sequence[int]) -> None:
        self._statements.tell("drop_reservations", run_ids)

    def add_spend(self, corrections: Sequence[Correction]) -> None:
        self._statements.tell("add_spend", corrections)

    def drop_spend(self, before: str) -> int:
        return self._statements.do("drop_spend", before=before)
