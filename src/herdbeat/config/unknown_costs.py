"""Warn of budgets in dollars over agents whose cost nobody will know: such a budget never stops anything."""

from collections.abc import Mapping

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.domain.agent_run import find_price
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Budget
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation


def warn_unknown_costs(fleet: Fleet, locations: Mapping[str, SourceLocation], diagnostics: Diagnostics) -> None:
    """Warn once per agent with a budget in dollars, unless its CLI reports them or its model has a price."""
    limited = [each for each in fleet.targets if each.name in locations and _has_dollar_budget(fleet, each)]
    # Most fleets have no such agent, and `validate` then needs nothing of the agents.
    if not limited or _is_price_package_installed():
        return  # it knows nearly every model, and what it does not know is shown by herdbeat cost
    for target in limited:
        if _has_known_cost(fleet, target):
            continue
        model = getattr(target.spec, "model", None)
        subject = f'the model "{model}"' if model else "its model"
        diagnostics.warning(
            Code.UNKNOWN_COST,
            f'The budget in dollars of the agent "{target.name}" has no effect: nobody knows what {subject} costs.',
            locations[target.name],
            "Set budget: { tokens_per_day: ... }, add the model under prices:, or install genai-prices.",
        )


def _has_dollar_budget(fleet: Fleet, target: Target) -> bool:
    own = [schedule.policies.budget for schedule in fleet.schedules if schedule.target == target.name]
    return any(_is_in_dollars(budget) for budget in (fleet.budget, target.budget, *own))


def _is_in_dollars(budget: Budget | None) -> bool:
    """A budget that has tokens too is kept in tokens."""
    return budget is not None and budget.usd_per_day is not None and budget.tokens_per_day is None


def _is_price_package_installed() -> bool:
    from herdbeat.runners.agents.price_package import is_installed  # noqa: PLC0415 - only for budgets in dollars

    return is_installed()


def _has_known_cost(fleet: Fleet, target: Target) -> bool:
    from herdbeat.runners.agents.presets import find_preset  # noqa: PLC0415 - as above

    spec = target.spec
    assert isinstance(spec, AgentSpec)
    preset = find_preset(spec.runtime, {})
    if spec.preset or preset is None or preset.reports_usd:
        return True  # a definition of the user, or a program of which nothing is known, is not judged
    return find_price(fleet.prices, spec.model or "") is not None
