"""Budgets that several schedules share, from the files to the ledger: of a target, and of the whole fleet."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from herdbeat.domain.budget import FLEET_OWNER, BudgetOwner, BudgetScope
from herdbeat.domain.change import ChangeData
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Budget
from herdbeat.scheduler.apply.diff import describe_budget
from herdbeat.store.base import Transaction

FLEET_SUBJECT = "the fleet"
"""What the record of changes calls it. No target can have this name: it has a blank."""

_UNSAVED_TARGET_ID = -1
"""The number of a target that is not in the ledger yet: nothing is stored for it."""


class BudgetEdit(NamedTuple):
    """Whose budget differs, by the name of the target; before and after in the words of the file."""

    name: str
    before: ChangeData | None
    after: ChangeData | None


def apply_budgets(tx: Transaction, fleet: Fleet, target_ids: Mapping[str, int], is_whole: bool) -> list[BudgetEdit]:
    """Make the ledger hold the shared budgets of this fleet. `numbers` are those of all targets, by name."""
    stored = tx.budgets(target_ids.values())
    edits = list(diff_budgets(fleet, stored, target_ids, is_whole=is_whole))
    desired = _desired_budgets(fleet, target_ids, is_whole=is_whole)
    tx.set_budgets({_budget_owner(edit.name, target_ids): desired[edit.name] for edit in edits})
    return edits


def diff_budgets(
    fleet: Fleet, stored: Mapping[BudgetOwner, Budget], target_ids: Mapping[str, int], *, is_whole: bool
) -> Iterator[BudgetEdit]:
    """What differs. Targets that are gone from the files lose theirs; a part of a fleet leaves all others alone."""
    for name, new in _desired_budgets(fleet, target_ids, is_whole=is_whole).items():
        old = stored.get(_budget_owner(name, target_ids))
        if old != new:
            yield BudgetEdit(name, describe_budget(old), describe_budget(new))


def _desired_budgets(fleet: Fleet, target_ids: Mapping[str, int], *, is_whole: bool) -> dict[str, Budget | None]:
    own_budgets = {target.name: target.budget for target in fleet.targets}
    return dict.fromkeys(target_ids) | own_budgets | {FLEET_SUBJECT: fleet.budget} if is_whole else own_budgets


def _budget_owner(name: str, target_ids: Mapping[str, int]) -> BudgetOwner:
    return (
        FLEET_OWNER
        if name == FLEET_SUBJECT
        else BudgetOwner(BudgetScope.TARGET, target_ids.get(name, _UNSAVED_TARGET_ID))
    )
