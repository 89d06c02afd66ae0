"""The policies in the words of the file, shared budgets included."""

import pytest
from tests.support.record_builders import make_schedule_spec

from herdbeat.domain.budget import BudgetScope
from herdbeat.domain.policies import Budget
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.service.queries.details import describe_policies, format_budget


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(runs_per_day=1), "1 run a day"),
        (Budget(runs_per_day=0), "0 runs a day"),
        (Budget(usd_per_day=2.5, tokens_per_day=2_000_000), "$2.50, 2,000,000 tokens a day"),
        (Budget(usd_per_day=5), "$5 a day"),
    ],
)
def test_a_budget_is_shown_in_whole_numbers(budget: Budget, words: str) -> None:
    """Two million tokens were told as 2e+06."""
    assert format_budget(budget) == words


def test_shared_budgets_are_shown_with_their_scope() -> None:
    shared = {BudgetScope.FLEET: Budget(usd_per_day=20), BudgetScope.TARGET: Budget(usd_per_day=5)}
    policies = make_schedule_spec(budget=Budget(runs_per_day=8)).policies

    told = {each.key: each for each in describe_policies(policies, TriggerKind.INTERVAL, TargetKind.AGENT, shared)}

    own = "8 runs a day"
    target, fleet = "$5 a day, shared by the schedules of its target", "$20 a day, shared by the whole fleet"
    assert told["budget"].text == f"{own}; {target}; {fleet}"
    assert not told["budget"].is_default
