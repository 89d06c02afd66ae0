"""Budgets that several schedules share, from the files to the ledger: of a target, and of the whole fleet."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from herdbeat.domain.change import Facts
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Budget
from herdbeat.domain.spend import THE_FLEET, Holder, Scope
from herdbeat.scheduler.differences import budget_facts
from herdbeat.store.base import Transaction

WHOLE_FLEET = "the fleet"
"""What the record of changes calls it. No target can have this name: it has a blank."""

_UNKNOWN = -1
"""The number of a target that is not in the ledger yet: nothing is stored for it."""


class BudgetEdit(NamedTuple):
    """Whose budget differs, by the name of the target; before and after in the words of the file."""

    name: str
    before: Facts | None
    after: Facts | None


def arrange_budgets(tx: Transaction, fleet: Fleet, numbers: Mapping[str, int], is_whole: bool) -> list[BudgetEdit]:
    """Make the ledger hold the shared budgets of this fleet. `numbers` are those of all targets, by name."""
    stored = tx.budgets(numbers.values())
    edits = list(budget_edits(fleet, stored, numbers, is_whole=is_whole))
    wanted = _wanted(fleet, numbers, is_whole=is_whole)
    tx.set_budgets({_holder(edit.name, numbers): wanted[edit.name] for edit in edits})
    return edits


def budget_edits(
    fleet: Fleet, stored: Mapping[Holder, Budget], numbers: Mapping[str, int], *, is_whole: bool
) -> Iterator[BudgetEdit]:
    """What differs. Targets that are gone from the files lose theirs; a part of a fleet leaves all others alone."""
    for name, new in _wanted(fleet, numbers, is_whole=is_whole).items():
        old = stored.get(_holder(name, numbers))
        if old != new:
            yield BudgetEdit(name, budget_facts(old), budget_facts(new))


def _wanted(fleet: Fleet, numbers: Mapping[str, int], *, is_whole: bool) -> dict[str, Budget | None]:
    own = {target.name: target.budget for target in fleet.targets}
    return dict.fromkeys(numbers) | own | {WHOLE_FLEET: fleet.budget} if is_whole else own


def _holder(name: str, numbers: Mapping[str, int]) -> Holder:
    return THE_FLEET if name == WHOLE_FLEET else Holder(Scope.TARGET, numbers.get(name, _UNKNOWN))
